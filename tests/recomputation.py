"""The numbers of `rota simulate --json`, worked out again from what `--jobs-csv` and `--events` wrote.

Plain Python on plain text, without a line of Rota's: what is here follows from the pages docs/command-line.md and
docs/event-log.md alone. Finish-time fairness of single jobs is taken from the CSV, and its means are worked out;
`isolation` works out that of single jobs, where the speeds of all of them are known.
"""

import csv
import json
import math
from collections import Counter


def recomputed(jobs_csv, events_jsonl):
    """As many of the numbers of a summary as follow from the two files (paths)."""
    with jobs_csv.open(encoding="utf-8") as file:
        jobs = [_typed(row) for row in csv.DictReader(file)]
    with events_jsonl.open(encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    config = events[0]["config"]
    types = type_names(config["cluster"])
    prices = {name: price for name, _, price in config["cluster"]["accelerators"]}
    gpus = Counter()
    for server in config["cluster"]["servers"]:
        gpus[server[1]] += server[2]
    held = _held(events, types)
    end = events[-1]["at"]
    left = [job["finish_s"] for job in jobs if job["status"] == "finished"]
    left += _let_go(events)
    unfinished = any(job["status"] == "unfinished" for job in jobs)
    makespan = (end if unfinished else max(left)) - min(job["arrival_s"] for job in jobs)
    counts = Counter(e["event"] for e in events)
    statuses = Counter(job["status"] for job in jobs)
    measured = [job for job in jobs if job["measured"]]
    first, last = config["measure"] or (0, len(jobs))
    for job in jobs:
        job["counts"] = first <= job["job_id"] < last
    return {
        **_of_group(jobs, measured, end, fair=("mean_ftf", "worst_ftf", "unfair_fraction", "p50_ftf", "p99_ftf")),
        "p90_jct_s": _percentile([job["jct_s"] for job in measured], 90),
        "p999_jct_s": _percentile([job["jct_s"] for job in measured], 99.9),
        "makespan_s": makespan,
        "utilization": sum(held["type"].values()) / (sum(gpus.values()) * makespan),
        "cpu_utilization": _used(events, types, "cpus", 3, makespan),
        "memory_utilization": _used(events, types, "memory_gb", 4, makespan),
        "cost": _sum(prices[name] and prices[name] * s / 3600 for name, s in held["type"].items()),
        "jobs_submitted": len(jobs),
        "jobs_finished": statuses["finished"],
        "jobs_dropped": statuses["dropped"],
        "jobs_rejected": statuses["rejected"],
        "rounds": sum(e["rounds"] for e in events if e["event"] == "RoundsRan"),
        "solves": counts["Allocated"],
        "solve_failures": counts["SolveFailed"],
        "lease_extension_fraction": _leases(events),
        "by_tenant": _groups(jobs, measured, end, "tenant", str),
        "by_weight": _groups(jobs, measured, end, "weight", "{:g}".format),
        "mean_jct_s_by_tenant": _means(measured, "tenant", str),
        "mean_jct_s_by_weight": _means(measured, "weight", "{:g}".format),
        "gpu_s": {job["job_id"]: held["job"][job["job_id"]] for job in jobs},
        "price": {job["job_id"]: _price(held, job["job_id"], prices) for job in jobs},
    }


def _let_go(events):
    """When jobs that were dropped held slots for the last time."""
    until = {}
    dropped = []
    for event, plan in _plans(events):
        if event["event"] == "RoundsRan":
            for *members, seconds in zip(plan["first"], plan["second"], event["seconds"], strict=True):
                until |= dict.fromkeys(members, min(event["start"] + seconds, event["at"]))
    for event in events:
        if event["event"] == "JobsDropped":
            dropped += [until[job] for job in event["jobs"] if job in until]
    return dropped


def _typed(row):
    texts = {"profile", "tenant", "status", "name"}
    number = {key: math.nan if value == "" else float(value) for key, value in row.items() if key not in texts}
    whole = {"job_id": int(row["job_id"]), "gpus": int(row["gpus"]), "measured": row["measured"] == "1"}
    return {**row, **number, **whole}


def _plans(events):
    """Every event that is about rounds, with the plan in force."""
    plan = None
    for event in events:
        if event["event"] == "Planned":
            same = event.get("same")
            plan = {**plan, "kept": [1] * len(plan["first"])} if same else event
        if event["event"] in ("Planned", "RoundsRan", "JobsFinished", "JobsDropped"):
            yield event, plan


def _held(events, types):
    """GPU-seconds by type, by job, and by job and type; two that share GPUs have half each while both are there."""
    by_type, by_job, by_both = Counter(), Counter(), Counter()
    for event, plan in _plans(events):
        if event["event"] != "RoundsRan":
            continue
        alone = event.get("alone", [0.0] * len(plan["first"]))
        for k, seconds in enumerate(event["seconds"]):
            size, name = plan["gpus"][k], types[plan["type"][k]]
            by_type[name] += size * seconds
            one, two = plan["first"][k], plan["second"][k]
            both = seconds - abs(alone[k])
            parts = {one: seconds} if two < 0 else {one: both / 2 + max(alone[k], 0), two: both / 2 + max(-alone[k], 0)}
            for job, part in parts.items():
                by_job[job] += size * part
                by_both[job, name] += size * part
    return {"type": by_type, "job": by_job, "both": by_both}


def _price(held, job, prices):
    used = [name for name in prices if held["both"][job, name]]
    return _sum(prices[name] and prices[name] * held["both"][job, name] / 3600 for name in used)


def _sum(amounts):
    """None if one of them is unknown."""
    amounts = list(amounts)
    return None if None in amounts else sum(amounts)


def type_names(cluster):
    """Types by their numbers in the log."""
    return cluster.get("types") or sorted({server[1] for server in cluster["servers"]})


def _used(events, types, field, column, makespan):
    """CPUs or GB held over those there; a task without any of its own has the part of its servers that its GPUs are."""
    servers = sorted(events[0]["config"]["cluster"]["servers"], key=lambda server: types.index(server[1]))
    if not all(server[column] for server in servers):
        return None
    held = 0.0
    for event, plan in _plans(events):
        if event["event"] == "RoundsRan":
            amounts = plan[field] if field in plan else _in_proportion(plan, servers, types, column)
            held += sum(amount * s for amount, s in zip(amounts, event["seconds"], strict=True))
    return held / (sum(server[column] for server in servers) * makespan)


def _in_proportion(plan, servers, types, column):
    amounts = []
    for k in range(len(plan["first"])):
        slots = range(plan["slot_start"][k], plan["slot_start"][k + 1])
        parts = [(servers[plan["slot_server"][s]], plan["slot_gpus"][s]) for s in slots]
        if "fraction" in plan:
            alike = [server for server in servers if server[1] == types[plan["type"][k]]]
            parts = [(server, plan["gpus"][k] * server[2] / sum(one[2] for one in alike)) for server in alike]
        amounts.append(sum(server[column] * gpus / server[2] for server, gpus in parts))
    return amounts


def isolation(jobs_csv, events_jsonl, rate):
    """Finish-time fairness by job: `rate(profile, gpus, type)` is the speed alone in steps/s, 0 where there is none."""
    with jobs_csv.open(encoding="utf-8") as file:
        jobs = [_typed(row) for row in csv.DictReader(file)]
    with events_jsonl.open(encoding="utf-8") as file:
        cluster = json.loads(file.readline())["config"]["cluster"]
    gpus = Counter()
    for server in cluster["servers"]:
        gpus[server[1]] += server[2]
    return {job["job_id"]: _delay(job, jobs, gpus, rate) for job in jobs if job["status"] == "finished"}


def _delay(job, jobs, gpus, rate):
    came, went = job["arrival_s"], job["finish_s"]
    together = 0.0
    for other in jobs:
        if other["status"] != "rejected":
            left = other["finish_s"] if other["status"] == "finished" else math.inf
            together += max(0.0, min(went, left) - max(came, other["arrival_s"]))
    share = {name: count * (went - came) / (together * job["gpus"]) for name, count in gpus.items()}
    scale = max(1.0, sum(share.values()))
    usable = [name for name, count in gpus.items() if count >= job["gpus"]]
    speed = sum(rate(job["profile"], job["gpus"], name) * share[name] / scale for name in usable)
    return (went - came) * speed / job["steps"]


def _leases(events):
    """Of the tasks of a round whose jobs are there in the next one, the part that keeps its very slots."""
    kept = continuing = 0
    tasks, gone, rounds_of_plan, fluid = [], set(), 0, False
    for event, plan in _plans(events):
        if event["event"] == "Planned":
            if rounds_of_plan or tasks:
                continuing += sum(not gone & set(task) for task in tasks)
            fluid = "fraction" in plan
            kept += 0 if fluid else sum(plan["kept"])
            tasks = [] if fluid else [(a, b) for a, b in zip(plan["first"], plan["second"], strict=True)]
            gone, rounds_of_plan = set(), 0
        elif event["event"] == "RoundsRan":
            again = event["rounds"] if rounds_of_plan else max(event["rounds"] - 1, 0)
            rounds_of_plan += event["rounds"]
            kept += again * len(tasks)
            continuing += again * len(tasks)
        else:
            gone |= set(event["jobs"])
    return kept / continuing if continuing else None


def _percentile(values, part):
    """Linear between the two nearest."""
    if not values:
        return None
    values = sorted(values)
    place = (len(values) - 1) * part / 100
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return values[below] + (values[above] - values[below]) * (place - below)


def _mean(values):
    return sum(values) / len(values) if values else None


def _of_group(jobs, measured, end, fair):
    times = [job["jct_s"] for job in measured]
    rho = [job["ftf"] for job in measured if not math.isnan(job["ftf"])]
    bound = [job for job in jobs if job["counts"] and not math.isnan(job["deadline_s"])]
    known = {
        "mean_ftf": _mean(rho),
        "p50_ftf": _percentile(rho, 50),
        "p99_ftf": _percentile(rho, 99),
        "worst_ftf": max(rho, default=None),
        "unfair_fraction": _mean([float(r > 1.05) for r in rho]),
    }
    return {
        "jobs_measured": len(measured),
        "mean_jct_s": _mean(times),
        "p50_jct_s": _percentile(times, 50),
        "p99_jct_s": _percentile(times, 99),
        **{name: known[name] for name in fair},
        "slo_jobs": len(bound),
        "slo_violations": sum(_late(job, end) for job in bound),
    }


def _late(job, end):
    if job["status"] == "finished":
        return job["finish_s"] > job["deadline_s"]
    return job["status"] in ("dropped", "rejected") or end > job["deadline_s"]


def _groups(jobs, measured, end, key, name):
    groups = {}
    for value in sorted({job[key] for job in jobs}):
        mine = [job for job in jobs if job[key] == value]
        done = [job for job in measured if job[key] == value]
        groups[name(value)] = {
            **_of_group(mine, done, end, fair=("mean_ftf", "worst_ftf", "unfair_fraction")),
            "gpu_hours": sum(job["gpu_s"] for job in mine) / 3600,
            "cost": _sum(None if math.isnan(job["cost"]) else job["cost"] for job in mine),
        }
    return groups


def _means(measured, key, name):
    values = sorted({job[key] for job in measured})
    return {name(value): _mean([job["jct_s"] for job in measured if job[key] == value]) for value in values}
