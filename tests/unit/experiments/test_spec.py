"""What a sweep asks for: axes, ranges, rules, and mistakes in them."""

import pytest

from rota.core.errors import ConfigError, UnknownName
from rota.experiments.spec import Spec, axis_from_text, read_spec, spec_from
from rota.experiments.sweeping import make_spec

BASE = {"workload": "gavel-continuous", "cluster": "v100=4", "measure": [10, 20]}


def a_spec(axes, **sweep):
    return spec_from({"sweep": sweep, "run": BASE, "axes": axes}, "spec.toml")


def points(spec):
    return [{key: p[key] for key in spec.varied if key in p} for p in spec.points()]


def test_every_combination_is_a_point_and_the_last_axis_changes_fastest():
    spec = a_spec({"policies": ["fifo", "las"], "loads": {"from": 1, "to": 3}})

    assert points(spec) == [{"policy": p, "load": x} for p in ("fifo", "las") for x in (1, 2, 3)]


def test_plurals_prefixes_and_nested_tables_name_the_same_settings():
    short = a_spec({"splits": ["20,70,10"], "set": {"jobs": [3]}, "policy.alpha": [1]})
    long = a_spec({"set.split": ["20,70,10"], "jobs": [3], "policy_settings": {"alpha": [1]}})

    assert short.axes == long.axes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"from": 1, "to": 2, "step": 0.25}, (1, 1.25, 1.5, 1.75, 2)),
        ({"from": 0.1, "to": 0.3, "step": 0.1}, (0.1, 0.2, 0.3)),
        ({"from": 1, "to": 8, "factor": 2}, (1, 2, 4, 8)),
        ([5], (5,)),
        (7, (7,)),
    ],
)
def test_ranges_have_both_ends(given, expected):
    assert a_spec({"load": given}).axes["load"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:9:4", (1, 5, 9)), ("0:3", (0, 1, 2, 3)), ("a,b", ("a", "b")), ("20,70,10;1,1,1", ("20,70,10", "1,1,1"))],
)
def test_lists_and_ranges_on_a_command_line(text, expected):
    assert axis_from_text(text, "--x") == expected


def test_zipped_axes_go_along_with_each_other():
    spec = a_spec({"seeds": [0, 1]}, zip=[{"cluster": ["v100=4", "v100=8"], "load": [1, 2]}])

    assert points(spec) == [
        {"seed": s, "cluster": c, "load": x} for s in (0, 1) for c, x in (("v100=4", 1), ("v100=8", 2))
    ]


def test_points_can_be_left_out_restricted_and_changed():
    spec = a_spec(
        {"policies": ["fifo", "las", "allox"], "seeds": [0, 1]},
        exclude=[{"policy": "las", "seed": 1}],
        only=[{"when": {"policy": "allox"}, "seed": [1]}],
        override=[{"when": {"policy": "allox"}, "policy.alpha": 0.5}],
    )

    assert points(spec) == [
        {"policy": "fifo", "seed": 0},
        {"policy": "fifo", "seed": 1},
        {"policy": "las", "seed": 0},
        {"policy": "allox", "seed": 1, "policy.alpha": 0.5},
    ]


def test_points_that_have_become_equal_are_one():
    spec = a_spec({"policies": ["fifo"], "seeds": [0, 1]}, override=[{"when": {"policy": "fifo"}, "seed": 7}])

    assert points(spec) == [{"policy": "fifo", "seed": 7}]


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"sweeps": {}}, "did you mean 'sweep'"),
        ({"sweep": {"timeout": 3}}, "did you mean 'timeout_s'"),
        ({"run": {"polcy": "fifo"}}, "did you mean 'policy'"),
        ({"axes": {"sed": [1]}}, "did you mean 'seed'"),
        ({"axes": {"plicy.alpha": [1]}}, "spec.toml, [axes]"),
        ({"axes": {"load": {"form": 1, "to": 2}}}, "did you mean 'from'"),
        ({"axes": {"load": {"from": 1, "to": 2, "step": 0}}}, "greater than 0"),
        ({"axes": {"load": {"from": 3, "to": 2}}}, "empty"),
        ({"axes": {"load": {"from": 1}}}, "from and to"),
        ({"axes": {"seed": []}}, "no values"),
        ({"axes": {"seed": [1], "seeds": [2]}}, "given twice"),
        ({"sweep": {"overload": "maybe"}}, "auto"),
        ({"sweep": {"executor": "rya"}}, "did you mean 'ray'"),
        ({"sweep": {"workers": 0}}, "workers"),
        ({"sweep": {"timeout_s": -1}}, "timeout_s"),
        ({"sweep": {"zip": [{"seed": [1, 2], "load": [1]}]}}, "seed has 2, load has 1"),
        ({"sweep": {"zip": [{"seed": [1, 2]}]}, "axes": {"seed": [1]}}, "varied twice"),
        ({"sweep": {"only": [{"seed": [1]}]}}, "when is missing"),
        ({"sweep": {"exclude": {"seed": 1}}}, "[[sweep.exclude]]"),
        ({"sweep": {"auto_load": {"form": 1}}}, "did you mean 'from'"),
        ({"sweep": {"auto_load": {"factor": 0.9}}}, "does not raise"),
        ({"sweep": {"auto_load": {"from": 1}}, "axes": {"load": [1]}}, "auto_load chooses"),
        ({"run": 3}, "not a table"),
    ],
)
def test_mistakes_are_named_with_what_to_do(document, says):
    with pytest.raises(ConfigError) as refused:
        spec_from(document, "spec.toml")

    assert says in str(refused.value)


def test_a_file_that_is_not_toml_or_not_there_is_refused(tmp_path):
    bad = tmp_path / "bad.toml"
    bad.write_text("[sweep\n")

    for path, says in ((bad, "not valid TOML"), (tmp_path / "no.toml", "check the path")):
        with pytest.raises(ConfigError, match=says):
            read_spec(path)


def test_a_file_gives_the_sweep_its_name(tmp_path):
    path = tmp_path / "my-sweep.toml"
    path.write_text("[run]\ncluster = 'v100=4'\n[axes]\npolicies = ['fifo']\nset.jobs = [1, 2]\n")

    spec = read_spec(path)

    assert spec.name == "my-sweep"
    assert spec.axes == {"policy": ("fifo",), "set.jobs": (1, 2)}


def test_keywords_of_python_vary_what_is_a_list_and_fix_what_is_not():
    spec = make_spec(
        None, {**BASE, "measure": (10, 20), "policy": ["fifo"], "seed": range(2), "settings": {"jobs": [5]}}
    )

    assert spec.run == {**BASE, "measure": (10, 20)}
    assert spec.axes == {"policy": ("fifo",), "seed": (0, 1), "set.jobs": (5,)}


def test_keywords_replace_what_a_file_says():
    base = Spec(run={"policy": "fifo", "seed": 1}, axes={"load": (1, 2)})

    spec = make_spec(base, {"seed": [1, 2], "load": 3, "workers": 1})

    assert spec.run == {"policy": "fifo", "load": 3}
    assert spec.axes == {"seed": (1, 2)}
    assert spec.workers == 1


def test_a_wrong_keyword_of_python_is_offered_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'workers'"):
        make_spec(None, {"worker": 1})
