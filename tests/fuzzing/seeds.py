"""Good inputs of every kind, small, each made by hand or by Rota itself."""

import contextlib
import datetime as dt
import gzip
import io
import json
import sqlite3
from pathlib import Path

import rota
from rota.core.jobs import table
from rota.deploy.security import certs
from rota.deploy.security.revocations import Revocations
from rota.deploy.security.subjects import Role, Subject
from rota.deploy.security.tokens import TokenFile
from rota.experiments.execution import RunOutcome
from rota.experiments.store import ResultStore
from rota.workloads import write_trace

_ATTEMPT = {
    "start_time": "2017-10-09 06:00:00",
    "end_time": "2017-10-09 07:00:00",
    "detail": [{"ip": "m", "gpus": ["g"]}],
}
_PHILLY = {"status": "Pass", "vc": "a", "jobid": "a1", "user": "u", "submitted_time": "2017-10-09 05:00:00"}
DATA = Path(rota.__file__).parent / "profiles" / "data"
TRACES = {
    "elasticflow": "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
    "b-1,1000,3249,deepspeech2,1693,32,1,1075\nb-2,3065,48266,inception3,5920,64,8,3604\n",
    "sia": "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\nbert-1,110,bert,4,384\n",
    "openb": "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\np0,12000,16384,1,1000,,LS,Running,500,1500,510\n"
    "p1,6000,12288,1,460,V100M16|V100M32,BE,Failed,600,700,650\n",
    "helios": "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    "7,u1,vcA,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 00:10:20,600,10\n"
    "9,u2,vcB,1,4,1,FAILED,2020-04-01 00:00:05,2020-04-01 00:00:06,2020-04-01 00:01:06,60,1\n",
    "sacct": "JobID|User|Account|Partition|Submit|Start|End|State|AllocTRES|ReqTRES\n"
    "100|ann|vision|gpu|2026-01-05T08:00:00|2026-01-05T08:10:00|2026-01-05T10:10:00|COMPLETED|"
    "billing=8,cpu=8,gres/gpu=2,mem=64G,node=1|cpu=8\n"
    "104_3|eve||gpu|2026-01-05T09:00:00|2026-01-05T09:00:00|2026-01-05T09:00:30|TIMEOUT||cpu=4,gres/gpu:a100=1\n",
    "swf": "; Version: 2.2\n; Computer: made by hand\n\n 1 0 10 100 4 -1 -1 4 200 1048576 1 3 1 1 1 1 -1 -1\n"
    " 2 5 -1 60 -1 -1 -1 9 200 -1 0 3 1 2 1 1 -1 -1\n",
    "csv": "job_id,arrival_s,profile,gpus,steps,weight,deadline_s,tenant\n0,0,LM,1,5,1,900,a\n1,2.5,A3C,2,9,2,,b\n",
    "philly-csv": "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,b\n"
    "2017-10-09 06:13:03,2951.0,8,23608.0,a\n",
    "gavel": "LM\tpython main.py\tlm\t--steps\t1\t100\t2\t1\t-1.000000\t0\nA3C\tx\ta\t-n\t0\t50\t1\t1\t3600\t12.5\n",
    "gavel-legacy": "LM\tpython\t-n\t1\t100\t6.0\t2\nA3C\tpython\t-n\t1\t10\t7\t1\n",
    "synergy": "0,alexnet,.123,3349,4\n1,gnmt,8,26435,1\n7,res50,9.5,13451,16\n",
    "philly-json": json.dumps([{**_PHILLY, "attempts": [_ATTEMPT, _ATTEMPT]}, {**_PHILLY, "attempts": []}]),
}
CLUSTER = """name = "lab"
[[server]]
type = "v100"
count = 9
gpus = 4
cpus = 32
memory_gb = 256
storage_mbps = 500
network_gbps = 25
rack = "rack0"
[[server]]
type = "k80"
gpus = 8
[[accelerator]]
name = "v100"
memory_gb = 16
hourly_price = 0.74
source = "a price list, 2026"
"""
CLUSTER_INI = """[CLUSTER]
racks = 1
servers_per_rack = 16
gpus_per_server = 8
cpus_per_server = 24
dram_per_server = 500
[SCHEDULER]
policy = fifo
"""
NODE_LIST = "sn,cpu_milli,memory_mib,gpu,model\nnode-1,64000,262144,2,P100\nnode-2,96000,524288,8,V100M32\n"
PROFILE_CSV = """# about: measured by hand
profile,type,gpus,rate
lm,v100,1,10.5
lm,k80,1,2.5
lm,v100,2,20
"""
PROFILE_TOML = """source = "by hand"
[[rate]]
profile = "lm"
type = "v100"
gpus = 1
rate = 10.5
[[rate]]
profile = "lm"
type = "k80"
gpus = 2
rate = 3
"""
PROFILE_JSON = json.dumps(
    {"rate": [{"profile": "lm", "type": t, "gpus": g, "rate": r} for t, g, r in (("v100", 1, 9.5), ("k80", 2, 3))]}
)
PROFILE_MODELS = "[[model]]".join((DATA / "synergy.toml").read_text().split("[[model]]")[:3])
NOTIFY = """[[webhook]]
name = "on-call"
url = "https://alerts.example.org/rota?a=1"
events = ["job-failed", "node-lost"]
tenants = ["vision"]
timeout_s = 10
retry_for_s = 86400.0

[[command]]
name = "page"
argv = ["/bin/true", "--team", "ml"]
events = ["*"]
"""
NOTIFIED = '{"journal": "journal", "targets": {"on-call": 12, "page": 7}}'
TENANTS = """[default]
weight = 1
max_job_weight = 4
[tenants.vision]
weight = 2.5
[tenants.speech]
max_job_weight = 10
"""
AGENT_FILE = """uids = [1879048192, 2013265919]
refuse_others = false
[tenants]
vision = "vision-jobs"
[containers]
images = ["/srv/images/*", "registry.example.org/ml/**", "host"]
mounts = ["/datasets:ro", "/scratch"]
"""
JOBS = """[[job]]
name = "resnet"
gpus = 2
steps = 20000
profile = "resnet18-32"
emulated = true
count = 3
weight = 1.5
[[job]]
command = "python train.py --lr 0.1"
gpus = 1
cpus = 4
memory_gb = 16.5
env = { SEED = "1" }
cwd = "/scratch"
max_restarts = 3
checkpoint_every = 60
"""
SWEEP = """[sweep]
name = "loads"
[run]
workload = "gavel-continuous"
cluster = "v100=4,k80=4"
settings = { jobs = 20, interarrival_s = 3000 }
[axes]
policy = ["fifo", "las"]
seed = { from = 1, to = 3 }
"""
CLIENT = 'scheduler = "gpu-head.example.org:7070"\ntoken_file = "{token}"\ncerts = "certs"\n'
ENV_FILE = "# of a job\nexport SEED=1\nNAME='a b'\nEMPTY=\n"
SOCKET = (
    b'{"op":"hello","job":"7","epoch":1,"rank":0,"step":0,"pid":12,"key":"KEY","saves":true}\n'
    b'{"op":"progress","step":5}\n{"op":"saving","step":6,"written":100}\n'
    b'{"op":"saved","step":6,"path":"step-000006","seconds":0.5}\n{"op":"at","step":6}\n'
    b'{"op":"failed","reason":"exception","detail":"no"}\n{"op":"stopped","step":9}\n'
)
FRAMES = b"".join(
    b"%013x%c%05x%s" % (1_700_000_000_000_000 + i, b"oe"[i % 2], len(t), t)
    for i, t in enumerate([b"a\n", b"", b"hello" * 9])
)
NOW = dt.datetime.now(dt.timezone.utc).replace(microsecond=0)


def packed(text):
    """The same with gzip."""
    return gzip.compress(text.encode(), mtime=0)


def parquet(folder):
    """Our own trace as Parquet."""
    path = folder / "a.parquet"
    write_trace(table(profile_names=["LM", "A3C"], gpus=[1, 2], total_steps=[5, 9], submitted=[0, 2.5]), path)
    return path.read_bytes()


CONFIG: dict = {}
"""Of the run whose checkpoint was made last."""


def a_run(folder):
    """(event log, jobs as CSV, checkpoint, summary) of one small run."""
    from rota.analysis.jobs_csv import write_jobs_csv

    log = io.BytesIO()
    run = {"workload": "gavel-continuous", "settings": {"interarrival_s": 3000, "jobs": 5}, "seed": 1}
    run |= {"cluster": "v100=4,k80=4", "policy": "las"}
    result = rota.simulate(**run, events=log, checkpoint=folder / "checkpoint", checkpoint_every=3600.0)
    CONFIG.clear()
    CONFIG.update(result.config)
    write_jobs_csv(folder / "jobs.csv", result.jobs)
    summary = json.dumps({**result.summary, "config": dict(result.config)}, default=str)
    return log.getvalue(), (folder / "jobs.csv").read_bytes(), (folder / "checkpoint").read_bytes(), summary.encode()


def a_store(folder):
    """A store with two results, one of them failed."""
    import numpy as np

    from rota.experiments.blobs import pack

    path = folder / "store.db"
    ids = np.arange(3)
    times = {"job_id": ids, "arrival_s": ids * 1.0, "finish_s": ids * 2.0 + 5, "gpus": ids + 1, "ftf": ids * 1.0}
    with ResultStore(path) as store:
        store.record_sweep("s", {"axes": {"seed": [1, 2]}})
        store.add_members("s", [({"seed": 1}, "k1"), ({"seed": 2}, "k2")])
        ok = RunOutcome(status="ok", metrics={"mean_jct_s": 5.0, "jobs_finished": 3}, jobs=pack(times, None))
        store.write("k1", {"policy": "las", "seed": 1}, ok)
        store.write("k2", {"policy": "las", "seed": 2}, RunOutcome(status="failed", error="no"))
    return _one_file(path)


def a_journal(folder):
    """A state file of a scheduler that had jobs and a server."""
    from deployed import PlayedAgent, a_scheduler, submit

    path = folder / "state.db"
    scheduler = a_scheduler(path)
    scheduler.start()
    try:
        agent = PlayedAgent(scheduler, "node1")
        submit(scheduler, {}, {"gpus": 2})
        for _ in range(3):
            agent.report(scheduler)
    finally:
        scheduler.stop()
    return _one_file(path)


def _one_file(path):
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path.read_bytes()


def certificates(folder):
    """A folder with an authority and a certificate of each role, tokens and revocations."""
    certs.create_authority(folder, NOW)
    certs.issue(folder, Subject(Role.SCHEDULER, "scheduler"), NOW, hosts=["localhost", "127.0.0.1"])
    certs.issue(folder, Subject(Role.AGENT, "node1"), NOW)
    certs.issue(folder, Subject(Role.CLIENT, "alice"), NOW)
    Revocations(folder / "revoked.json").revoke(Role.CLIENT, "bob", NOW)
    TokenFile(folder / "tokens.json").add("vision", days=30, note="by hand")
    return folder
