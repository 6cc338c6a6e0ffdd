"""Accounts of two jobs that share."""

import numpy as np

from builders import ids
from rota.core.allocation import Options
from rota.engine.pairs import PairLedger, pair_key

OPENING = (180.0, 90.0)


def pairs_of(*members):
    first, second = (ids(*column) for column in zip(*members, strict=True))
    return Options(first=first, second=second, gpus=np.ones(len(first), dtype=np.int64))


def an_account(*members, share=0.5, types=2):
    accounts = PairLedger(types)
    accounts.promise(pairs_of(*members), np.full((types, len(members)), share), OPENING, keep_all=False)
    return accounts


def test_keys_tell_pairs_apart_and_order_them():
    keys = pair_key(ids(0, 0, 1, 70000), ids(1, 2, 2, 70001))

    assert len(set(keys.tolist())) == 4
    assert (np.diff(keys) > 0).all()


def test_a_promise_opens_an_account():
    accounts = an_account((0, 1), (2, 5))

    assert len(accounts) == 2
    assert accounts.value.share.tolist() == [[0.5, 0.5]] * 2
    assert accounts.value.received.tolist() == [[180.0, 180.0]] * 2
    assert accounts.value.owed.tolist() == [[90.0, 90.0]] * 2


def test_time_is_booked_by_type_round_after_round():
    accounts = an_account((0, 1), (2, 5))

    accounts.credit(pairs_of((2, 5)), ids(1), np.array([[100.0], [50.0]]), OPENING)

    assert accounts.value.received.tolist() == [[180.0, 180.0], [180.0, 330.0]]


def test_a_pair_without_an_account_gets_one_when_it_runs():
    accounts = an_account((0, 1))

    accounts.credit(pairs_of((3, 4), (0, 1)), ids(0, 1), np.array([[10.0, 20.0]]), OPENING)

    assert accounts.value.options == pairs_of((0, 1), (3, 4))
    assert accounts.value.received.tolist() == [[180.0, 190.0], [200.0, 180.0]]
    assert accounts.value.share[:, 1].tolist() == [0.0, 0.0]


def test_closing_a_period_turns_missed_time_into_debt():
    accounts = an_account((0, 1))
    accounts.credit(pairs_of((0, 1)), ids(0), np.array([[300.0]]), OPENING)

    accounts.settle(1000.0, 180.0)

    assert accounts.value.owed.tolist() == [[90.0 + 500.0 - 300.0], [90.0 + 500.0]]
    assert accounts.value.received.tolist() == [[180.0], [180.0]]


def test_a_pair_without_a_new_promise_is_forgotten():
    accounts = an_account((0, 1), (2, 3))

    accounts.promise(pairs_of((2, 3)), np.full((2, 1), 0.25), OPENING, keep_all=False)

    assert accounts.value.options == pairs_of((2, 3))
    assert accounts.value.share.tolist() == [[0.25], [0.25]]


def test_the_artifact_remembers_every_pair_that_ever_ran():
    accounts = an_account((0, 1), (2, 3))

    accounts.promise(pairs_of((2, 3)), np.full((2, 1), 0.25), OPENING, keep_all=True)

    assert accounts.value.options == pairs_of((0, 1), (2, 3))
    assert accounts.value.share.tolist() == [[0.0, 0.25]] * 2


def test_an_account_ends_when_one_of_its_members_leaves():
    accounts = an_account((0, 1), (2, 3), (1, 4))

    accounts.drop(ids(1))

    assert accounts.value.options == pairs_of((2, 3))


def test_nothing_happens_to_accounts_that_are_not_there():
    accounts = PairLedger(2)

    accounts.drop(ids(1, 2))
    accounts.settle(100.0, 0.0)

    assert len(accounts) == 0
