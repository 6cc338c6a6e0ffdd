import shlex

import pytest

import rota
from rota.cli.simulate import command
from rota.experiments.store import Run
from rota.report.points import axes_of, points
from rota.report.recipes import FILE, recipe


def a_run(key="k", *, status="ok", point=None, **config):
    return Run(key=key, point=point or {}, status=status, metrics={}, error=None, config=config)


def some_runs():
    return [
        a_run(
            policy=policy,
            mechanism=mechanism,
            workload="gavel-continuous",
            cluster={"name": cluster},
            settings={"interarrival_s": interarrival},
            seed=seed,
        )
        for policy, mechanism in (("fifo", "proportional"), ("fifo", "tune"), ("las", "proportional"))
        for cluster in ("v100=4", "v100=8")
        for interarrival in (3600, 1800)
        for seed in (0, 1)
    ]


def test_a_line_is_named_by_what_tells_it_from_others_of_its_policy():
    found = points(some_runs())

    assert found.lines == ["fifo · proportional", "fifo · tune", "las"]


def test_one_policy_before_and_after_an_edit_is_two_lines_and_files_are_told_apart():
    runs = [
        a_run(policy=policy, policy_sha256=digest, workload="w", seed=0)
        for policy, digest in (("a.py:Mine", "1" * 64), ("b.py:Mine", "1" * 64), ("Mine", "1" * 64), ("Mine", "2" * 64))
    ]

    found = points(runs)

    assert found.lines == [
        "a.py:Mine", "b.py:Mine", "Mine · policy.code=sha256:11111111", "Mine · policy.code=sha256:22222222",
    ]  # fmt: skip
    assert found.line == [0, 1, 2, 3]


def test_a_policy_from_a_file_has_a_command_and_an_object_has_none():
    given = {"workload": "gavel-static", "cluster": "v100=4", "policy_sha256": "1" * 64}

    assert "--policy mine.py:Mine" in recipe({**given, "policy": "mine.py:Mine"}).command
    assert "given as an object" in recipe({**given, "policy": "Mine"}).note


def test_a_setting_is_all_that_was_varied_but_lines_and_seeds_and_the_load_is_the_abscissa():
    found = points(some_runs())

    assert found.x == "load"
    assert [(s.scenario, s.x) for s in found.settings] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert found.scenarios == ["gavel-continuous on v100=4", "gavel-continuous on v100=8"]
    assert len(set(zip(found.line, found.setting, strict=True))) == 12


def test_a_load_that_differs_between_scenarios_only_is_no_abscissa():
    runs = [
        a_run(policy="fifo", workload="a", cluster={"name": "x"}, settings={"jobs_per_hour": 1}),
        a_run(policy="fifo", workload="b", cluster={"name": "y"}, settings={"jobs_per_hour": 2}),
    ]

    found = points(runs)

    assert found.x is None
    assert [s.label for s in found.settings] == ["a on x", "b on y"]


def test_the_point_of_a_sweep_says_more_than_the_configuration():
    axes = axes_of(a_run(policy="fifo", point={"load": 0.3, "rules.restart_s": 30}, settings={"interarrival_s": 12000}))

    assert axes == {"policy": "fifo", "load": 0.3, "rules.restart_s": 30}


def test_a_run_without_a_configuration_is_where_the_others_are():
    made = {"policy": "fifo", "mechanism": "tune", "cluster": {"name": "v100=4"}, "settings": {"interarrival_s": 3600}}
    runs = [a_run(point={"policy": "fifo", "load": 1, "seed": seed}, **made, seed=seed) for seed in (0, 1)]
    missing = a_run(status=None, point={"policy": "fifo", "load": 1, "seed": 2})
    other = a_run(policy="las", mechanism="proportional", cluster={"name": "k80=4"})

    found = points([*runs, missing, other])

    assert found.setting == [0, 0, 0, 1]
    assert found.line == [0, 0, 0, 1]


def test_names_that_users_gave_are_lines():
    found = points([a_run(policy="fifo"), a_run(policy="fifo")], ["before", "after"])

    assert found.lines == ["before", "after"]


@pytest.mark.parametrize(
    "keywords",
    [
        {"workload": "gavel-static", "settings": {"jobs": 3}, "cluster": "v100=4,k80=4", "policy": "fifo"},
        {
            "workload": "gavel-continuous",
            "settings": {"interarrival_s": 4000, "jobs": 6, "multi_gpu": "true"},
            "cluster": "v100=4/4,p100=4,k80=4",
            "policy": "max-min-fairness",
            "rules": "gavel-artifact",
            "rule_settings": {"restart_s": 5},
            "round_s": 500,
            "seed": 3,
            "measure": (1, 5),
        },
        {
            "workload": "philly-derived",
            "settings": {"jobs": 5, "jobs_per_hour": 9, "split": "20,70,10"},
            "cluster": "synergy-32",
            "policy": "srtf",
            "mechanism": "tune",
            "mechanism_settings": {"consolidate": "true"},
        },
        {
            "workload": "gavel-static",
            "settings": {"jobs": 4},
            "cluster": "v100=4",
            "policy": "allox",
            "policy_settings": {"alpha": 0.5},
            "until": 90000.0,
        },
    ],
)
def test_the_command_of_a_run_makes_the_same_run_again(keywords):
    first = rota.simulate(**keywords)
    how = recipe(first.config)

    program, verb, *arguments = shlex.split(how.command)
    options = command.make_context(verb, arguments).params
    again = rota.simulate(**{k: v for k, v in options.items() if k not in {"jobs_csv", "as_json"}})

    assert (program, verb, how.note) == ("rota", "simulate", None)
    assert again.config["rules"] == first.config["rules"]
    assert again.config["cluster"] == first.config["cluster"]
    assert again.jobs["jct_s"].tolist() == pytest.approx(first.jobs["jct_s"].tolist(), nan_ok=True)
    assert rota.simulate(**how.keywords).summary["mean_jct_s"] == first.summary["mean_jct_s"]


def test_a_cluster_that_its_name_does_not_mean_is_not_guessed():
    config = rota.simulate(workload="gavel-static", settings={"jobs": 1}, cluster="v100=4", policy="fifo").config
    other = {**config, "cluster": {**config["cluster"], "name": "v100=8"}}

    how = recipe(other)

    assert f"--cluster {FILE}" in how.command
    assert how.keywords == {}
    assert FILE in how.note


def test_jobs_from_python_have_no_command():
    assert recipe({"policy": "fifo", "jobs_sha256": "0"}).command == ""
