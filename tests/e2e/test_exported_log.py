"""The log of a deployment whose jobs leave one by one, while the others just go on."""

import json

from live import Live


def test_a_log_in_which_jobs_leave_one_by_one_can_be_replayed(tmp_path):
    live = Live(tmp_path)
    live.up(
        "--server",
        "v100=4",
        "--server",
        "k80=4",
        "--emulate",
        "--time-scale",
        "120",
        "--round",
        "60",
        "--heartbeat",
        "0.5",
    )
    try:
        with live.client() as client:
            steps = (6000, 20000, 20000, 30000)
            jobs = client.submit([{"emulated": True, "profile": "resnet18-32", "steps": n, "gpus": 2} for n in steps])
            assert {info.phase for info in client.wait(jobs, 60, every_s=0.1)} == {"finished"}
        live.run("events", "--export", "run.jsonl")

        told = json.loads(live.run("replay", "run.jsonl", "--json"))
    finally:
        live.down()

    assert (told["jobs_finished"], told["jobs_submitted"]) == (4, 4)
    events = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    tasks = [len(e["first"]) for e in events if e["event"] == "Planned"]
    assert {4, 3} <= set(tasks)
