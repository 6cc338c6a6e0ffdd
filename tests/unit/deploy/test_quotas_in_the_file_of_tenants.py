"""Quotas in the operator's file of tenants, and a simulation that reads it."""

import json
import math

import pytest

from rota.cli.main import main
from rota.core.errors import ConfigError
from rota.core.quotas import Quota, beyond_capacity
from rota.deploy.tenants import parse_tenants, tenants_from


def test_quotas_are_read_by_type_and_of_any_type_and_kept_in_the_journal():
    text = "[tenants.a]\nquota = {v100 = 8, k80 = 4}\nborrow = 4\n[tenants.b]\nquota = 12\n"

    tenants = parse_tenants(text, "t.toml")

    assert tenants.of("a").promised() == Quota(by_type={"v100": 8, "k80": 4}, borrow=4)
    assert tenants.of("b").promised() == Quota(any_type=12, borrow=math.inf)
    assert not tenants.of("c").promised().limited
    assert tenants_from(json.loads(json.dumps(tenants.described()))) == tenants


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("quota = -1", "t.toml: tenants.a: quota is -1"),
        ("quota = nan", "quota is nan"),
        ("quota = 1.5", "quota is 1.5"),
        ("quota = true", "quota is True"),
        ("quota = {v100 = -2}", "quota.v100 is -2"),
        ("quota = {}", "quota is {}"),
        ("quota = 4\nborrow = 'some'", "borrow is 'some'"),
        ("quota = 4\nborrow = inf", "borrow is inf"),
        ("borrow = 4", "borrow is 4 without a quota"),
    ],
)
def test_a_quota_that_cannot_be_is_refused_with_file_and_value(line, words):
    with pytest.raises(ConfigError) as error:
        parse_tenants(f"[tenants.a]\n{line}\n", "t.toml")

    assert words in str(error.value)
    assert "t.toml" in str(error.value)


def test_what_is_beyond_a_quota_is_borrowed():
    quota = Quota(by_type={"v100": 2}, borrow=1)

    assert quota.borrowed({"v100": 3, "k80": 1}) == 2
    assert quota.permits({"v100": 2}, "k80", 1)
    assert not quota.permits({"v100": 2}, "k80", 2)
    assert beyond_capacity([quota], {"v100": 1}) == "quotas of v100 add up to 2 GPUs, and 1 are there"
    assert beyond_capacity([quota], {"v100": 4}) == ""


def simulated(tmp_path, tenants):
    rows = [f"{n},0,ResNet-18 (batch size 32),1,3600,{'ab'[n % 2]}" for n in range(12)]
    header = "job_id,arrival_s,profile,gpus,duration_s,tenant"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    (tmp_path / "tenants.toml").write_text(tenants, encoding="utf-8")
    words = ["simulate", "--trace", str(tmp_path / "jobs.csv"), "--cluster", "v100=8", "--policy", "fifo"]
    return main([*words, "--tenants", str(tmp_path / "tenants.toml"), "--json"])


@pytest.mark.parametrize("limit", ["quota = 2\nborrow = 0", "max_running = 2"])
def test_a_simulation_keeps_to_the_limits_of_tenants(tmp_path, capsys, limit):
    assert simulated(tmp_path, f"[tenants.a]\n{limit}\n") == 0

    answer = json.loads(capsys.readouterr().out)
    assert answer["by_tenant"]["a"]["mean_jct_s"] == pytest.approx(7200, rel=0.1), "two at a time, three times"
    assert answer["by_tenant"]["b"]["mean_jct_s"] == pytest.approx(3600, rel=0.1)


def test_a_simulation_refuses_a_type_that_is_not_there_and_notes_quotas_above_capacity(tmp_path, capsys):
    assert simulated(tmp_path, "[tenants.a]\nquota = {v1000 = 2}\n") == 2
    assert "tenants.toml: a quota names the type 'v1000', and the cluster has v100" in capsys.readouterr().err

    assert simulated(tmp_path, "[tenants.a]\nquota = 9\n") == 0
    assert "quotas add up to 9 GPUs, and 8 are there" in capsys.readouterr().err


@pytest.mark.parametrize("tenants", ["[default]\nquota = 6\n", "[tenants.a]\nquota = 6\n[default]\nquota = 6\n"])
def test_quotas_above_capacity_are_noted_of_tenants_that_are_not_named(tmp_path, capsys, tenants):
    assert simulated(tmp_path, tenants) == 0

    assert "quotas add up to 12 GPUs, and 8 are there" in capsys.readouterr().err
