"""Random instances: own catalogues, jobs and clusters, without ties in speeds or lengths."""

import random

from simulator import Job

from rota.core.jobs import table


def catalogue(path, rates, reference=None):
    """Write rates {(profile, gpus, type): steps/s} as a catalogue and return its path as text."""
    lines = [f"# reference: {reference}"] if reference else []
    lines += ["profile,gpus,type,rate"]
    lines += [f"{profile},{gpus},{name},{rate!r}" for (profile, gpus, name), rate in rates.items() if rate > 0]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def random_jobs(draw: random.Random, types, count, sizes, hole=0.0, spread_s=4000.0, rounds=8):
    """Jobs of up to `rounds` rounds on their best type, each of a model of its own."""
    jobs = []
    for number in range(count):
        rate = {name: draw.uniform(0.2, 5.0) for name in types}
        for name in draw.sample(list(types), len(types) - 1):
            if draw.random() < hole:
                rate[name] = 0.0
        arrival_s = 0.0 if draw.random() < 0.3 else draw.uniform(0, spread_s)
        length_s = draw.uniform(60, rounds * 360)
        jobs.append(Job(number, arrival_s, draw.choice(sizes), length_s * max(rate.values()), rate))
    jobs.sort(key=lambda job: job.arrival_s)
    for number, job in enumerate(jobs):
        job.number = number
    return jobs


def as_table(jobs, **more):
    """The same jobs for rota.simulate; profiles are called m0, m1, ..."""
    return table(
        profile_names=[f"m{job.number}" for job in jobs],
        gpus=[job.gpus for job in jobs],
        total_steps=[job.steps for job in jobs],
        submitted=[job.arrival_s for job in jobs],
        **more,
    )


def rates_of(jobs):
    """Rates for a catalogue."""
    return {(f"m{job.number}", job.gpus, name): rate for job in jobs for name, rate in job.rate.items()}


def as_text(capacity):
    """`a=2/2,b=3/3`: one server per type, so that no gang is spread."""
    return ",".join(f"{name}={gpus}/{gpus}" for name, gpus in capacity.items())
