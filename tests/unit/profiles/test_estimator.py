import pytest

import rota
from rota import profiles
from rota.core.errors import ConfigError, ProfileMissing, UnknownName
from rota.engine import checkpoint
from rota.profiles import Catalogue
from rota.profiles.estimator import Estimator
from rota.profiles.settings import estimated

RUN = {
    "workload": "gavel-continuous",
    "cluster": "v100=4,p100=4,k80=4",
    "policy": "max-min-fairness-packed",
    "seed": 0,
}
BUSY = {**RUN, "settings": {"interarrival_s": 3500, "jobs": 40}}
PART = {"profiled_fraction": 0.6, "reference_models": 16}


@pytest.fixture
def gavel() -> Catalogue:
    return profiles.load("gavel")


def test_a_fully_profiled_job_is_its_own_reference(gavel):
    estimator = Estimator(gavel)

    assert [estimator.reference(name, 1, k) for k, name in enumerate(gavel.names)] == list(gavel.names)


def test_full_knowledge_gives_the_true_pair_rates_to_the_last_bit(gavel):
    estimator = Estimator(gavel)

    for type_ in gavel.types:
        for a in gavel.names:
            for b in gavel.names:
                assert estimator.estimated_pair_rate(a, a, b, b, 1, type_) == gavel.pair_rate(a, b, 1, type_)


def test_a_fully_profiled_reference_model_is_recognised_among_a_part_of_the_models(gavel):
    estimator = Estimator(gavel, reference_models=16, seed=3)

    assert len(estimator.references) == 16
    assert [estimator.reference(name, 1, 0) for name in estimator.references] == list(estimator.references)


def test_every_model_is_stood_for_by_a_reference_model(gavel):
    estimator = Estimator(gavel, 0.4, 7)

    found = {estimator.reference(name, 1, k) for k, name in enumerate(gavel.names)}

    assert found <= set(estimator.references)


def test_an_estimate_is_the_share_of_the_reference_times_the_own_speed(gavel):
    estimator = Estimator(gavel, 0.5, 10)
    a, b = "A3C", "LM (batch size 5)"
    one, two = "CycleGAN", "LM (batch size 10)"
    estimator.references = (one, two)

    share = gavel.pair_rate(one, two, 1, "v100") / gavel.rate(one, 1, "v100")

    assert estimator.estimated_pair_rate(a, one, b, two, 1, "v100") == pytest.approx(share * gavel.rate(a, 1, "v100"))


def test_estimates_lie_between_nothing_and_the_speed_alone(gavel):
    estimator = Estimator(gavel, 0.3, 9, seed=2)
    found = {name: estimator.reference(name, 1, k) for k, name in enumerate(gavel.names)}

    for type_ in gavel.types:
        for a, one in found.items():
            for b, two in found.items():
                rate = estimator.estimated_pair_rate(a, one, b, two, 1, type_)
                assert 0 <= rate <= gavel.rate(a, 1, type_)


def test_more_profiling_gives_better_estimates(gavel):
    def error(fraction):
        estimator = Estimator(gavel, fraction)
        found = [(name, estimator.reference(name, 1, k)) for k, name in enumerate(gavel.names * 3)]
        return sum(
            abs(estimator.estimated_pair_rate(a, one, b, two, 1, "v100") / gavel.rate(a, 1, "v100")
                - gavel.pair_rate(a, b, 1, "v100") / gavel.rate(a, 1, "v100"))
            for a, one in found for b, two in found
        )  # fmt: skip

    assert error(1.0) == 0
    assert error(0.6) < error(0.2) < error(0.0)


def test_draws_follow_from_the_seed_and_the_number_of_the_draw(gavel):
    def drawn(seed):
        estimator = Estimator(gavel, **PART, seed=seed)
        return estimator.references, [estimator.reference("A3C", 1, k) for k in range(20)]

    assert drawn(4) == drawn(4)
    assert drawn(4) != drawn(5)
    assert Estimator(gavel, 0.1, seed=4).reference("A3C", 1, 7) == Estimator(gavel, 0.1, seed=4).reference("A3C", 1, 7)
    assert len({Estimator(gavel, 0.1).reference("A3C", 1, k) for k in range(20)}) > 1


def test_negative_seeds_are_seeds(gavel):
    assert Estimator(gavel, 0.5, 8, seed=-1).references == Estimator(gavel, 0.5, 8, seed=-1).references


def test_speeds_alone_and_real_pair_speeds_are_the_truth(gavel):
    estimator = Estimator(gavel, 0.1, 3)

    assert estimator.rate("A3C", 1, "k80") == gavel.rate("A3C", 1, "k80")
    assert estimator.pair_rate("A3C", "CycleGAN", 1, "k80") == gavel.pair_rate("A3C", "CycleGAN", 1, "k80")
    assert estimator.known("A3C")
    assert not estimator.known("GPT-7")
    with pytest.raises(ProfileMissing, match="GPT-7"):
        estimator.reference("GPT-7", 1, 0)


def test_jobs_with_several_gpus_are_compared_with_references_of_that_size(gavel):
    estimator = Estimator(gavel, 0.6)
    name = "ResNet-18 (batch size 64)"

    found = estimator.reference(name, 4, 0)

    assert 4 in gavel.gpu_counts(found)


def test_without_a_reference_of_that_size_the_truth_is_taken():
    catalogue = small({("a", "b"): 0.25, ("b", "a"): 0.5}, gpus=2, sizes={"a": 2, "b": 2, "c": 1})
    estimator = Estimator(catalogue, 0.5)
    estimator.references = ("c",)

    assert estimator.reference("a", 2, 0) is None
    assert estimator.estimated_pair_rate("a", None, "b", None, 2, "v100") == catalogue.pair_rate("a", "b", 2, "v100")


def test_a_model_that_shares_with_nobody_is_recognised():
    catalogue = small({("a", "b"): 0.75, ("b", "a"): 0.5, ("a", "a"): 0.5, ("b", "b"): 0.9})
    estimator = Estimator(catalogue)

    assert [estimator.reference(name, 1, 0) for name in "abc"] == ["a", "b", "c"]


def test_a_type_on_which_a_model_was_not_measured_is_not_profiled():
    alone = {("a", 1, "k80", False): 1.0, ("a", 1, "v100", False): 2.0, ("b", 1, "v100", False): 2.0}
    pairs = {("a", 1, "v100", False, "a"): 1.0, ("b", 1, "v100", False, "a"): 1.0, ("a", 1, "k80", False, "a"): 0.5}
    estimator = Estimator(Catalogue("part", alone, lambda: pairs))

    assert estimator.reference("b", 1, 0) == "a"


@pytest.mark.parametrize(
    ("settings", "error", "word"),
    [
        ({"profiled_fraction": 1.5}, ConfigError, "0 to 1"),
        ({"profiled_fraction": "nan"}, ConfigError, "0 to 1"),
        ({"profiled_fraction": "much"}, ConfigError, "profiled_fraction"),
        ({"reference_models": 27}, ConfigError, "26 models"),
        ({"reference_models": -1}, ConfigError, "26 models"),
        ({"profiled": 1}, UnknownName, "profiled_fraction"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(gavel, settings, error, word):
    with pytest.raises(error, match=word):
        estimated(gavel, settings, seed=0)


def test_settings_come_as_text_too_and_the_seed_of_the_run_is_the_default(gavel):
    found = estimated(gavel, {"profiled-fraction": "0.5", "reference_models": "9"}, seed=11)

    assert isinstance(found, Estimator)
    assert (found.profiled_fraction, found.reference_models, found.seed) == (0.5, 9, 11)
    assert estimated(gavel, {}, seed=11) is gavel
    with pytest.raises(ConfigError, match="catalogue"):
        estimated(found, {"seed": 1}, seed=0)


def test_a_run_with_everything_profiled_is_the_run_without_estimation():
    plain = rota.simulate(**BUSY)
    known = rota.simulate(**BUSY, profile_settings={"profiled_fraction": 1.0})

    assert known.summary["mean_jct_s"] == plain.summary["mean_jct_s"]


@pytest.mark.parametrize("rules", ["default", "gavel-artifact"])
def test_a_run_with_estimates_ends_near_the_run_that_knows_everything(rules):
    known = rota.simulate(**BUSY, rules=rules)
    guessed = rota.simulate(**BUSY, rules=rules, profile_settings=PART)

    assert guessed.summary["jobs_finished"] == 40
    assert guessed.config["profile_settings"] == PART
    assert guessed.summary["mean_jct_s"] != known.summary["mean_jct_s"]
    assert guessed.summary["mean_jct_s"] == pytest.approx(known.summary["mean_jct_s"], rel=0.1)


def test_the_published_run_with_estimates_ends_near_full_knowledge():
    run = {**RUN, "settings": {"interarrival_s": 15000}, "rules": "gavel-artifact", "measure": (20, 60)}

    known = rota.simulate(**run)
    guessed = rota.simulate(**run, profile_settings=PART)

    assert guessed.summary["mean_jct_s"] == pytest.approx(known.summary["mean_jct_s"], rel=0.02)


@pytest.mark.parametrize("mechanism", ["proportional", "ideal"])
@pytest.mark.parametrize("policy", ["max-min-fairness-packed", "fifo-packed", "gandiva"])
def test_nobody_hangs_on_pairs_that_do_not_fit(policy, mechanism):
    settings = {"profiled_fraction": 0.1, "reference_models": 4}
    run = {**BUSY, "policy": policy, "mechanism": mechanism, "cluster": "v100=2,k80=4"}

    result = rota.simulate(**run, profile_settings=settings)

    assert result.summary["jobs_finished"] == 40


def test_a_run_with_estimates_goes_on_from_a_checkpoint_as_if_nothing_had_happened(tmp_path, monkeypatch):
    run = {**BUSY, "profile_settings": {"profiled_fraction": 0.3, "reference_models": 8}}
    saved, save = tmp_path / "run.checkpoint", checkpoint.save
    monkeypatch.setattr(checkpoint, "save", lambda path, what: None if path.exists() else save(path, what))

    whole = rota.simulate(**run, checkpoint=saved, checkpoint_every=40_000)
    resumed = rota.simulate(**run, resume=saved)

    assert (whole.jobs["arrival_s"] > 50_000).any(), "jobs must arrive after the checkpoint"
    assert (resumed.jobs["jct_s"] == whole.jobs["jct_s"]).all()


def small(shares, gpus=1, sizes=None):
    """A catalogue of a, b and c on one type: speed 2 alone, the given shares of it in pairs."""
    alone = {(name, (sizes or {}).get(name, gpus), "v100", False): 2.0 for name in "abc"}
    pairs = {(a, gpus, "v100", False, b): 2.0 * share for (a, b), share in shares.items()}
    return Catalogue("small", alone, lambda: pairs)
