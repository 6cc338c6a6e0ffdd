"""Kernels look at what they are given before they touch it."""

from array import array

import numpy as np
import pytest

from rota import kernels

if not kernels.COMPILED:
    pytest.skip("the compiled kernels are not in use here", allow_module_level=True)

from kernel_calls import FORMS, TYPES, call, sound, wrong_calls
from rota.kernels import _compiled

NAMES = sorted(_compiled.SIGNATURES)
ARRAYS = [
    (name, at, parameter)
    for name in NAMES
    for at, parameter in enumerate(_compiled.SIGNATURES[name])
    if parameter[1] in "qdbxQDBX" and not (name == "append" and at > 5)
]


def _is_written_to(_name, parameter):
    return parameter[1].isupper()


def _has_a_range(_name, parameter):
    return parameter[3] != ""


def _shares_its_length(name, parameter):
    """With an argument that may not be longer than it."""
    others = [p for p in _compiled.SIGNATURES[name] if p is not parameter and p[1] in "qdbxQDBX"]
    last = parameter[2][-1]
    return any(last in other[2].upper() and not other[2].startswith(f">{last}") for other in others)


def each_array(*conditions):
    """Every array of every kernel for which these are true."""
    cases = [(name, at, p) for name, at, p in ARRAYS if all(condition(name, p) for condition in conditions)]
    return pytest.mark.parametrize(
        ("name", "at", "parameter"), cases, ids=lambda v: v[0] if isinstance(v, tuple) else v
    )


def a_call(name, at=0):
    """Arguments of a sound call, with an array at this place that is not empty."""
    for seed in range(100):
        arguments = sound(name, np.random.default_rng(seed))
        if len(arguments) > at and np.size(np.asarray(arguments[at])):
            return arguments
    raise AssertionError


def refuses(exceptions, name, arguments, parameter):
    with pytest.raises(exceptions, match=f"^{name}: .*{parameter[0]}"):
        call(name, arguments)


@pytest.mark.parametrize("name", NAMES)
def test_sound_calls_return(name):
    for seed in range(20):
        call(name, sound(name, np.random.default_rng(seed)))


def test_every_kernel_has_a_signature():
    assert set(_compiled.SIGNATURES) == {name for name in dir(_compiled) if callable(getattr(_compiled, name))} - {
        "__loader__"
    }


@each_array()
def test_an_array_of_another_type_is_refused_by_name(name, at, parameter):
    sample = a_call(name, at)
    for change in TYPES.values():
        arguments = list(sample)
        arguments[at] = change(np.asarray(arguments[at]))
        refuses((TypeError, ValueError) if parameter[1].isupper() else TypeError, name, arguments, parameter)


@each_array()
def test_an_array_with_other_axes_is_refused_by_name(name, at, parameter):
    for way in ("another axis", "no axis"):
        arguments = a_call(name, at)
        arguments[at] = FORMS[way](np.asarray(arguments[at]))
        refuses(ValueError, name, arguments, parameter)


@each_array(_shares_its_length)
def test_an_array_that_is_too_short_for_the_others_is_refused(name, at, parameter):
    arguments = a_call(name, at)
    arguments[at] = FORMS["shorter"](np.asarray(arguments[at]))
    with pytest.raises((ValueError, IndexError), match=f"^{name}: "):
        call(name, arguments)


@each_array(_is_written_to)
def test_what_is_written_to_is_writable_and_in_one_piece(name, at, parameter):
    arguments = a_call(name, at)
    values = np.repeat(np.asarray(arguments[at]), 2, axis=-1)[..., ::2]
    if values.size < 2:
        values = None
    read_only = np.array(arguments[at])
    read_only.setflags(write=False)
    for wrong in (read_only, values):
        if wrong is not None:
            refuses(ValueError, name, [*arguments[:at], wrong, *arguments[at + 1 :]], parameter)


@each_array(_is_written_to)
def test_what_is_written_to_is_nothing_else_as_well(name, at, parameter):
    arguments = a_call(name, at)
    alike = [
        n
        for n, other in enumerate(arguments)
        if n != at and isinstance(other, np.ndarray | array) and np.shape(other) == np.shape(arguments[at])
        and np.asarray(other).dtype == np.asarray(arguments[at]).dtype
    ]  # fmt: skip
    for other in alike:
        mixed = list(arguments)
        mixed[at] = mixed[other]
        with pytest.raises((ValueError, IndexError), match=f"^{name}: "):
            call(name, mixed)


@each_array(_has_a_range)
def test_positions_outside_and_counts_that_are_none_are_refused_by_name(name, at, parameter):
    below, least = parameter[3:]
    for wrong in (least - 1, -(2**63), *(() if below == "*" else (2**31, 2**62))):
        for place in (0, -1):
            arguments = a_call(name, at)
            changed = np.array(arguments[at])
            changed.flat[place] = wrong
            arguments[at] = changed
            refuses(ValueError if below == "#" else IndexError, name, arguments, parameter)


def test_the_first_position_that_is_wrong_is_told():
    arguments = a_call("by_gpus")
    arguments[0] = np.array([0, 99])
    arguments[2] = np.zeros(2, dtype=np.int64)

    with pytest.raises(IndexError, match=r"by_gpus: queue\[1\] is 99; allowed is 0 to "):
        call("by_gpus", arguments)


@pytest.mark.parametrize("wrong", [None, "x", 2**70, object()])
@pytest.mark.parametrize(
    ("name", "at", "parameter"),
    [(n, at, p) for n in NAMES for at, p in enumerate(_compiled.SIGNATURES[n]) if p[1] == "n"],
    ids=lambda v: v[0] if isinstance(v, tuple) else str(v),
)
def test_a_number_that_is_none_is_refused_by_name(name, at, parameter, wrong):
    arguments = a_call(name)
    arguments[at] = wrong

    refuses((TypeError, ValueError), name, arguments, parameter)


@pytest.mark.parametrize("name", NAMES)
def test_too_few_and_too_many_arguments_are_refused(name):
    arguments = a_call(name)

    for wrong in ([], arguments[:1], [*arguments, *[0] * 22]):
        with pytest.raises(TypeError, match=f"^{name}: "):
            call(name, wrong)


def test_arrays_that_are_only_read_may_lie_anywhere():
    jobs = np.repeat(np.arange(4), 2)[::2]
    memory = np.zeros(33, dtype=np.uint8)[1:].view(np.int64)

    assert _compiled.is_permutation(jobs, 4)
    assert _compiled.is_permutation(memoryview(np.arange(4)), 4)
    assert _compiled.is_permutation(array("q", [1, 0]), 2)
    with pytest.raises(ValueError, match="is_permutation: the memory of order is not aligned"):
        _compiled.is_permutation(memory, 4)


def test_what_a_signature_cannot_say_is_refused_too():
    with pytest.raises(ValueError, match="queue_up: workers has nobody"):
        _compiled.queue_up(np.ones((2, 1)), np.zeros(1, dtype=np.int64), np.arange(2), np.arange(2), np.arange(2))
    with pytest.raises(ValueError, match="queue_up: order has a job twice"):
        _compiled.queue_up(np.ones((2, 1)), np.ones(1, dtype=np.int64), np.zeros(2, int), np.arange(2), np.arange(2))


def test_wrong_calls_at_random_return_or_are_refused():
    returned, refused = wrong_calls(2_000, seed=1)

    assert min(returned, refused) > 100
