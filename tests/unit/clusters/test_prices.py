"""What a GPU hour costs, and what is said where nobody knows."""

import math

import pytest

from builders import a_view
from rota import clusters
from rota.clusters.documents import DATA, read_toml
from rota.core.errors import ConfigError
from rota.policies.registry import policies

BY_COST = [name for name in policies.names() if "by-cost" in name]


def test_every_known_price_has_a_source_with_its_date():
    entries = read_toml(DATA / "accelerators.toml")["accelerator"]
    priced = [entry for entry in entries if "hourly_price" in entry]

    assert len(priced) > 10
    assert all("20" in entry["source"] for entry in priced)


def test_the_prices_of_gavel_stay():
    prices = {a.name: a.hourly_price for a in clusters.known_accelerators()}

    assert (prices["v100"], prices["p100"], prices["k80"]) == (0.74, 0.43, 0.135)


def test_a_price_can_be_given_with_the_gpus():
    cluster = clusters.load("a40=8/4:price=0.4:cpus=32,v100=4")

    assert cluster.prices.tolist() == [0.4, 0.74]
    assert cluster.server_cpus.tolist() == [32, 32, 0]
    assert cluster.unpriced == ()


def test_a_price_of_ones_own_goes_before_the_list_and_keeps_the_rest_of_it():
    cluster = clusters.load("v100=4:price=0.5")

    assert cluster.prices.tolist() == [0.5]
    assert cluster.accelerators[0].memory_gb == 16


def test_a_type_without_a_price_has_none(tmp_path):
    (tmp_path / "c.toml").write_text('[[accelerator]]\nname = "x"\nmemory_gb = 8\n[[server]]\ntype = "x"\ngpus = 4\n')

    cluster = clusters.load(tmp_path / "c.toml")

    assert math.isnan(cluster.prices[0])
    assert cluster.unpriced == ("x",)


@pytest.mark.parametrize("text", ["x=4:price=abc", "x=4:price=-1", "x=4:prize=1"])
def test_a_bad_price_is_refused(text):
    with pytest.raises(ConfigError, match=r"price|prize"):
        clusters.load(text)


@pytest.mark.parametrize("policy", BY_COST)
@pytest.mark.parametrize(
    ("text", "said"), [("k80=2,v100=2,x=2", "'x' has no price"), ("k80=2:price=0", "'k80' costs 0")]
)
def test_a_policy_that_weighs_money_says_which_price_it_needs(policy, text, said):
    view = a_view(cluster=clusters.load(text), speeds=_Alike())

    with pytest.raises(ConfigError, match=said) as error:
        policies.create(policy).allocate(view)

    assert "hourly_price" in str(error.value)


@pytest.mark.parametrize("name", ["mixed-2026", "blackwell-2026"])
def test_clusters_of_today_know_their_prices_cpus_and_memory(name):
    cluster = clusters.load(name)

    assert cluster.unpriced == ()
    assert (cluster.fair_cpus > 0).all()
    assert (cluster.fair_memory_gb > 0).all()


class _Alike:
    """All types are equally fast."""

    name = "alike"

    def rate(self, *_, **__):
        return 1.0

    def pair_rate(self, *_):
        return 0.5

    def known(self, _):
        return True
