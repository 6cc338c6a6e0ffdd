"""What the errors say."""

import pytest

from rota.core import errors


@pytest.mark.parametrize(
    ("child", "parent"),
    [
        (errors.ConfigError, errors.RotaError),
        (errors.UnknownName, errors.ConfigError),
        (errors.TraceError, errors.ConfigError),
        (errors.ProfileMissing, errors.ConfigError),
        (errors.OutputError, errors.ConfigError),
        (errors.IllegalTransition, errors.RotaError),
        (errors.InfeasibleError, errors.RotaError),
        (errors.SolveError, errors.RotaError),
    ],
)
def test_the_tree_is_as_drawn(child, parent):
    assert issubclass(child, parent)
    assert child.__name__ in errors.__doc__


def test_errors_of_solving_are_not_errors_of_input():
    assert not issubclass(errors.SolveError, errors.ConfigError)


def test_an_unknown_name_without_alternatives_says_none():
    assert "Known: none." in str(errors.UnknownName("policy", "x", []))


def test_an_unknown_name_is_said_in_sentences():
    assert str(errors.UnknownName("policy", "x", ["abc"])) == "unknown policy 'x'. Known: abc."
    assert errors.UnknownName("type", "H100", ["a100", "h100", "v100"]).nearest == "h100"
    assert str(errors.UnknownName("policy", "abd", ["abc"])) == "unknown policy 'abd'; did you mean 'abc'? Known: abc."


def test_a_trace_error_says_file_line_and_column():
    error = errors.TraceError("a.trace", 3, "is negative", column="arrival_time")

    assert str(error) == "a.trace:3, column arrival_time: is negative"
    assert (error.path, error.line, error.column) == ("a.trace", 3, "arrival_time")


def test_a_trace_error_of_a_whole_line_has_no_column():
    assert str(errors.TraceError("a.trace", 1, "has 3 columns")) == "a.trace:1: has 3 columns"
