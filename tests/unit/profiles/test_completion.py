import numpy as np
import pytest

from rota.profiles.completion import complete


def low_rank(rows, columns, rank, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((rows, rank)) @ rng.random((rank, columns)) / rank


def test_a_low_rank_matrix_is_recovered_from_half_of_its_entries():
    matrix = low_rank(40, 50, rank=2)
    rng = np.random.default_rng(1)
    measured = rng.random(matrix.shape) < 0.5

    found = complete(
        np.where(measured, matrix, np.nan), measured, rng, rank=2, ridge=1e-7, tolerance=1e-10, sweeps=2000
    )

    assert np.abs(found - matrix).max() < 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_with_the_published_settings_gaps_are_filled_better_than_by_the_mean_of_the_column(seed):
    matrix = low_rank(17, 48, rank=3, seed=seed)
    measured = np.ones(matrix.shape, dtype=bool)
    measured[-1, ::2] = False

    found = complete(matrix, measured, np.random.default_rng(seed))

    guess = matrix[:-1].mean(axis=0)
    assert np.abs(found[-1] - matrix[-1])[::2].mean() < np.abs(guess - matrix[-1])[::2].mean()


def test_what_was_measured_stays_to_the_last_bit():
    matrix = low_rank(8, 9, rank=5)
    measured = np.random.default_rng(2).random(matrix.shape) < 0.7

    found = complete(matrix, measured, np.random.default_rng(3))

    assert (found[measured] == matrix[measured]).all()


def test_a_full_matrix_is_returned_as_a_copy():
    matrix = low_rank(3, 4, rank=2)

    found = complete(matrix, np.ones(matrix.shape, dtype=bool), np.random.default_rng(0))

    assert (found == matrix).all()
    assert found is not matrix


def test_a_row_of_which_nothing_was_measured_is_filled_with_zeros():
    matrix = low_rank(6, 8, rank=2)
    measured = np.ones(matrix.shape, dtype=bool)
    measured[-1] = False

    assert (complete(matrix, measured, np.random.default_rng(0))[-1] == 0).all()


@pytest.mark.parametrize("other", [False, True])
def test_the_same_generator_gives_the_same_numbers(other):
    matrix = low_rank(12, 20, rank=4)
    measured = np.random.default_rng(5).random(matrix.shape) < 0.5

    one = complete(matrix, measured, np.random.default_rng(7))
    two = complete(matrix, measured, np.random.default_rng(8 if other else 7))

    assert (one == two).all() != other
