"""Help texts: every option says what it is, every command shows how it is used."""

import click
import pytest

from rota.cli.main import VERBS, cli

FEWEST_WORDS = 3


def commands(command, context, name):
    """A command and all below it, with the words that call it."""
    yield name, command
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            below = command.get_command(context, part)
            yield from commands(below, click.Context(below, parent=context), f"{name} {part}")


def every_command():
    context = click.Context(cli)
    for verb in VERBS:
        command = cli.get_command(context, verb)
        yield from commands(command, click.Context(command, parent=context), f"rota {verb}")


@pytest.fixture(params=every_command(), ids=lambda named: named[0])
def command(request):
    return request.param[1]


def test_every_option_says_in_a_sentence_what_it_is(command):
    options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
    short = [o.opts[-1] for o in options if len((o.help or "").split()) < FEWEST_WORDS]

    assert short == []


def test_every_help_text_begins_like_a_sentence_and_ends_like_one(command):
    texts = [p.help for p in command.params if isinstance(p, click.Option) and p.help]

    assert [t for t in texts if not t[0].isupper() or not t.endswith((".", "..."))] == []


@pytest.mark.parametrize("words", ["likewise", "so many", "so much", "so long", "who waits"])
def test_help_names_the_thing(command, words):
    texts = [command.help or "", *(p.help or "" for p in command.params if isinstance(p, click.Option))]

    assert [t for t in texts if words in t] == []


def test_every_command_has_an_example(command):
    assert "rota " in f"{command.epilog} {command.help}"
