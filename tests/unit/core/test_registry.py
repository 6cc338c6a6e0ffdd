"""Names to components: how they are found, and how text becomes parameters."""

import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.core.registry import Registry, convert


@pytest.fixture
def colours():
    registry = Registry("colour", "rota.core")

    @registry.register("dark-red", summary="Red, but darker.", shade=0.2)
    @registry.register("red", shade=1.0)
    class Red:
        """A warm colour.

        It is seen from afar.
        """

        def __init__(self, shade: float = 1.0, layers: int = 1, matt: bool = False, label: str | None = None) -> None:
            self.given = (shade, layers, matt, label)

    return registry


def test_names_are_sorted(colours):
    assert colours.names() == ["dark-red", "red"]


@pytest.mark.parametrize("name", ["dark-red", "dark_red", "DARK_RED", " Dark-Red "])
def test_snake_case_upper_case_and_spaces_around_are_accepted(colours, name):
    assert colours.entry(name).name == "dark-red"


def test_an_unknown_name_offers_the_nearest(colours):
    with pytest.raises(UnknownName, match="unknown colour 'dark-rod'; did you mean 'dark-red'") as caught:
        colours.entry("dark-rod")

    assert caught.value.nearest == "dark-red"


def test_a_name_like_no_other_lists_what_is_known(colours):
    with pytest.raises(UnknownName, match="Known: dark-red, red") as caught:
        colours.entry("42")

    assert caught.value.nearest is None


def test_the_summary_is_given_or_the_first_line_of_the_docstring(colours):
    assert colours.entry("dark-red").summary == "Red, but darker."
    assert colours.entry("red").summary == "A warm colour."


def test_a_preset_is_applied_and_cannot_be_set(colours):
    assert colours.create("dark-red").given[0] == 0.2
    assert list(colours.entry("red").parameters()) == ["layers", "matt", "label"]
    with pytest.raises(UnknownName, match="shade"):
        colours.create("red", shade=3.0)


def test_text_becomes_the_declared_type(colours):
    built = colours.create("red", layers="3", matt="yes", label="rose")

    assert built.given == (1.0, 3, True, "rose")


def test_a_hyphen_in_a_parameter_is_an_underscore():
    registry = Registry("thing", "rota.core")
    registry.register("thing")(lambda how_many=1: how_many)

    assert registry.create("thing", **{"how-many": 4}) == 4


def test_an_unknown_parameter_offers_the_nearest(colours):
    with pytest.raises(UnknownName, match=r"parameter of colour 'red'.*'layer'.*did you mean 'layers'"):
        colours.create("red", layer=2)


def test_a_component_without_parameters_says_so():
    registry = Registry("thing", "rota.core")
    registry.register("plain")(lambda: "built")

    with pytest.raises(ConfigError, match="thing 'plain' has no parameters; 'size' was given"):
        registry.create("plain", size=1)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("7", int, 7),
        ("1e3", float, 1000.0),
        ("TRUE", bool, True),
        ("off", bool, False),
        ("none", int | None, None),
        ("", float | None, None),
        ("3", int | None, 3),
        ("2.5", int | float, 2.5),
        ("words", str, "words"),
        (4, float, 4),
    ],
)
def test_conversion_follows_the_hint(text, hint, value):
    assert convert(text, hint, "here") == value


@pytest.mark.parametrize(("text", "hint", "kind"), [("x", int, "int"), ("2.5", int, "int"), ("maybe", bool, "bool")])
def test_text_that_cannot_be_converted_names_place_value_and_type(text, hint, kind):
    with pytest.raises(ConfigError, match=f"here='{text}' is not a valid {kind}"):
        convert(text, hint, "here")
