"""Generated situations: clusters of 1-3 types and up to a dozen jobs of the catalogue `gavel`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from builders import a_cluster, a_state
from rota import profiles
from rota.core.jobs import table
from rota.core.rules import Rules
from rota.mechanisms.registry import mechanisms
from rota.policies.registry import policies
from rota.profiles.templates import templates

CATALOGUE = profiles.load("gavel")
POLICIES = policies.names()
MECHANISMS = mechanisms.names()
ONE_GPU_ONLY = {"allox"}
NO_SPEED = "ResNet-50 (batch size 128)"
"""With two GPUs or more it does not fit on a k80."""


def largest_job(policy):
    return 1 if policy in ONE_GPU_ONLY else 8


clusters = st.dictionaries(st.sampled_from(["k80", "p100", "v100"]), st.integers(1, 8), min_size=1).flatmap(
    lambda gpus: st.builds(a_cluster, per_server=st.sampled_from([1, 4]), **{k: st.just(n) for k, n in gpus.items()})
)

kinds = st.one_of(
    st.sampled_from([(t.profile, 1) for t in templates()]),
    st.sampled_from([(t.profile, g) for t in templates() if t.multi_gpu for g in (2, 4, 8)]),
    st.sampled_from([(NO_SPEED, 1), (NO_SPEED, 2)]),
)


@st.composite
def job_rows(draw):
    profile, gpus = draw(kinds)
    return {
        "profile": profile,
        "gpus": gpus,
        "seconds": draw(st.sampled_from([60.0, 500.0, 3600.0, 20000.0])),
        "arrival": draw(st.sampled_from([0.0, 0.0, 100.0, 1000.0, 5000.0])),
        "weight": draw(st.sampled_from([1.0, 1.0, 2.0, 5.0])),
        "tenant": draw(st.sampled_from(["a", "b"])),
        "slo": draw(st.sampled_from([np.nan, np.nan, 1.2, 10.0])),
    }


def jobs_from(rows, cluster, *, largest=8):
    """A table of the rows that can run on the cluster at all (the engine refuses the others)."""
    fitting = [r for r in rows if r["gpus"] <= largest and _fits(r, cluster)]
    fitting.sort(key=lambda r: r["arrival"])
    return table(
        profile_names=[r["profile"] for r in fitting],
        gpus=[r["gpus"] for r in fitting],
        total_steps=[r["seconds"] * CATALOGUE.rate(r["profile"], r["gpus"], "v100") for r in fitting],
        submitted=[r["arrival"] for r in fitting],
        weight=[r["weight"] for r in fitting],
        duration=[r["seconds"] for r in fitting],
        slo=[r["slo"] for r in fitting],
        tenant_names=[r["tenant"] for r in fitting],
    )


def _fits(row, cluster):
    return any(
        count >= row["gpus"] and CATALOGUE.rate(row["profile"], row["gpus"], kind) > 0
        for kind, count in zip(cluster.types, cluster.capacity.tolist(), strict=True)
    )


some_rows = st.lists(job_rows(), max_size=12)


def view_from(rows, cluster, *, largest=8, now=5000.0):
    """All jobs are here, each with a part of its steps done."""
    jobs = jobs_from(rows, cluster, largest=largest)
    state = a_state(jobs, cluster=cluster, speeds=CATALOGUE, rules=Rules(), now=now)
    view = state.view(now)
    return replace(view, steps_done=view.total_steps * ((np.arange(len(view)) % 4) / 4))
