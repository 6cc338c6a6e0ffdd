import json

import pytest

from rota.cli.main import VERBS, cli, main


@pytest.mark.parametrize("verb", [["policies"], ["mechanisms"], ["profiles"], ["workloads"], ["clusters"], ["rules"]])
def test_every_list_has_a_line_per_name_and_the_same_as_json(capsys, verb):
    assert main(verb) == 0
    shown = capsys.readouterr().out
    assert main([*verb, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)

    assert listed
    for entry in listed:
        assert any(line.startswith(entry["name"]) for line in shown.splitlines())
        assert entry["summary"].strip(), f"{entry['name']} has no explanation"


@pytest.mark.parametrize("verb", ["policies", "mechanisms", "profiles", "workloads", "clusters", "rules"])
def test_every_listed_thing_can_be_shown_in_detail(capsys, verb):
    main([verb, "--json"])
    for entry in json.loads(capsys.readouterr().out):
        assert main([verb, entry["name"]]) == 0
        assert capsys.readouterr().out.strip()
        assert main([verb, entry["name"], "--json"]) == 0
        json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", ["policies", "mechanisms", "profiles", "workloads", "clusters", "rules"])
def test_an_unknown_name_is_an_error_that_offers_known_ones(capsys, verb):
    assert main([verb, "no-such-thing-as-this"]) == 2
    assert "Known: " in capsys.readouterr().err


def test_a_cluster_is_shown_with_what_each_kind_of_server_has(capsys):
    spec = "v100=12/8:cpus=24:memory=500,k80=4"
    assert main(["clusters", spec]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert main(["clusters", spec, "--json"]) == 0
    described = json.loads(capsys.readouterr().out)

    assert ["v100", "rack0", "1", "8", "24", "500", "-", "-"] in shown
    assert ["k80", "rack0", "1", "4", "-", "-", "-", "-"] in shown
    assert [(k["type"], k["count"], k["gpus"], k["cpus"], k["memory_gb"]) for k in described["servers"]] == [
        ("k80", 1, 4, 0, 0),
        ("v100", 1, 8, 24, 500),
        ("v100", 1, 4, 24, 500),
    ]
    assert [t["gpus"] for t in described["types"]] == [4, 12]


def test_the_memory_of_gpus_that_nobody_knows_is_unknown(capsys):
    assert main(["clusters", "mine=8/4,v100=4"]) == 0
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]

    assert ["mine", "8", "2", "unknown", "unknown"] in shown


@pytest.mark.parametrize("ranking", ["srtf", "srsf", "las", "ftf", "drf", "tetris"])
def test_a_ranking_is_explained_as_the_one_that_its_name_says(capsys, ranking):
    assert main(["policies", ranking]) == 0
    assert " ".join(capsys.readouterr().out.split()).count("on any type") == 1
    assert main(["policies", f"{ranking}-perf"]) == 0
    known = " ".join(capsys.readouterr().out.split())
    assert "each type goes to who loses most without it" in known
    assert "on any type" not in known


@pytest.mark.parametrize("verb", ["plot", "trace", "results"])
def test_a_verb_with_parts_lists_them_when_none_is_named(capsys, verb):
    main([verb])
    told = capsys.readouterr()

    assert "Commands:" in told.out + told.err
    assert "error" not in told.err


def test_snake_case_names_are_accepted(capsys):
    assert main(["policies", "fifo_perf", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "fifo-perf"


def test_details_name_parameters_with_their_defaults(capsys):
    main(["workloads", "gavel-continuous", "--json"])

    parameters = {p["name"]: p for p in json.loads(capsys.readouterr().out)["parameters"]}
    assert parameters["multi_gpu"]["default"] is False
    assert parameters["interarrival_s"]["type"].startswith("float")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_and_its_first_line_is_in_the_overview(capsys, verb):
    assert main([verb, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    command = cli.get_command(None, verb)

    assert command.name == verb
    assert VERBS[verb].split(",")[0].split(".")[0].split(";")[0].split(":")[0] in shown


def test_help_answers_without_importing_numpy_or_rich():
    import subprocess
    import sys

    script = (
        "import sys\nfrom rota.cli.main import main\ncode = main(['--help'])\n"
        "heavy = {'numpy', 'scipy', 'highspy', 'rich', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else code)"
    )

    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(capsys, shell):
    assert main(["completion", shell]) == 0
    assert "_ROTA_COMPLETE" in capsys.readouterr().out


def test_a_shell_is_offered_policy_names(capsys, monkeypatch):
    monkeypatch.setenv("_ROTA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "rota simulate --policy fifo-p")
    monkeypatch.setenv("COMP_CWORD", "3")

    assert main([]) == 0
    assert "plain,fifo-perf" in capsys.readouterr().out


def test_a_trace_survives_conversion(tmp_path, capsys):
    first, second, third = (str(tmp_path / n) for n in ("a.trace.gz", "b.csv", "c.trace"))

    assert main(["trace", "generate", "gavel-continuous", first, "--jobs", "20", "--set", "interarrival_s=100"]) == 0
    assert main(["trace", "convert", first, second, "--to", "csv", "--exact"]) == 0
    assert main(["trace", "convert", second, third, "--from", "csv"]) == 0
    capsys.readouterr()
    facts = []
    for path in (first, second, third):
        assert main(["trace", "info", path, "--json"]) == 0
        facts.append({k: v for k, v in json.loads(capsys.readouterr().out).items() if k != "file"})

    assert facts[0]["jobs"] == 20
    assert facts[0] == facts[1] == facts[2]


def test_trace_info_is_readable_too(tmp_path, capsys):
    path = str(tmp_path / "a.trace")
    main(["trace", "generate", "gavel-continuous", path, "--jobs", "5", "--set", "interarrival_s=100", "--seed", "3"])

    assert main(["trace", "info", path]) == 0
    assert "Last arrival" in capsys.readouterr().out
    assert main(["trace", "formats"]) == 0
    assert "gavel" in capsys.readouterr().out


def test_a_trace_that_is_not_there_is_named(capsys, tmp_path):
    assert main(["trace", "info", str(tmp_path / "none.trace")]) == 2
    assert "none.trace" in capsys.readouterr().err


def test_a_terminal_shows_training_workloads_below_the_generators(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    main(["workloads"])

    shown = capsys.readouterr().out
    assert shown.index("gavel-continuous") < shown.index("rota workloads train NAME") < shown.index("imagenet")
