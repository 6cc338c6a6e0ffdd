"""Measure the training workloads again and write the catalogue `examples` (`make example-profiles`).

Each workload is profiled by `rota profile` in FOLDER, which resumes; a workload that other programs disturbed is tried
again, up to --tries times, and before each try the load average has to be below --load (for at most --wait seconds).
The catalogue is written once all workloads have a profile; its source says on which CPU.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

from rota import profiles
from rota.workloads import training

ROOT = Path(__file__).parents[1]
CATALOGUE = ROOT / "src/rota/profiles/data/examples.toml"
MEMORY_GB = 1.2
OPTIONS = {"imagenet": ("--workers", "2")}
"""Beyond the defaults of a workload."""


def cpu_model() -> str:
    """What the kernel says about the first CPU."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def wait_for_quiet(most_load: float, most_s: float) -> None:
    """Until little else runs, or the patience is over."""
    end = time.monotonic() + most_s
    while os.getloadavg()[0] > most_load and time.monotonic() < end:
        time.sleep(5)


def command_of(name: str) -> list[str]:
    """What is profiled, as a user would type it."""
    return ["rota", "workloads", "train", name, *OPTIONS.get(name, ())]


def profile(name: str, folder: Path, cpus: float, run_seconds: float) -> bool:
    """Whether the workload has a profile now."""
    output = folder / f"{name}.toml"
    rota = [sys.executable, "-m", "rota.cli", "profile", "--job-name", name, "--device", "cpu", "-o", output.name]
    eighths = (1, 2, 3, 4, 6, 8) if cpus >= 2 else (2, 3, 4, 5, 6, 8)  # PyTorch hardly starts with an eighth of a CPU
    axis = ",".join(f"{cpus * part / 8:g}" for part in eighths)
    amounts = ["--cpu", f"{cpus:g}", "--cpu-axis", axis, "--memory", str(MEMORY_GB), "--run-seconds", str(run_seconds)]
    subprocess.run([*rota, *amounts, "--", *command_of(name)], check=False, cwd=folder, stdout=subprocess.DEVNULL)
    return output.exists()


def catalogue(folder: Path, names: list[str]) -> str:
    """The profiles of all workloads as one file."""
    parts = []
    loads = []
    remarks = []
    for name in names:
        about, _, models = (folder / f"{name}.toml").read_text(encoding="utf-8").partition("\n[[model]]\n")
        parts.append("[[model]]\n" + models)
        loads += re.findall(r"load average ([\d.]+)", about)
        said = re.search(r'^remarks = "(.*)"$', about, re.MULTILINE)
        remarks += [(text, name) for text in said[1].split("; ")] if said else []
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    machine = (
        f"{cpu_model()}, {os.cpu_count()} CPUs, {memory_gb:.0f} GB, Linux {'.'.join(platform.release().split('.')[:2])}"
    )
    head = [
        "format = 1",
        'name = "examples"',
        'title = "Training workloads of `rota workloads train`, trained on CPUs"',
        f'source = "rota profile on {machine}"',
        'command = "rota workloads train PROFILE"',
        f'machine = "{machine}, load average {min(loads, key=float)} to {max(loads, key=float)}"',
        *([f'remarks = "{"; ".join(_once(remarks, names))}"'] if remarks else []),
    ]
    return "\n".join(head) + "\n\n" + "\n".join(parts)


def _once(remarks: list[tuple[str, str]], names: list[str]) -> list[str]:
    """Each remark once; of which workloads, unless it is of all."""
    of_text: dict[str, list[str]] = {}
    for text, name in remarks:
        of_text.setdefault(text, []).append(name)
    return [text if len(about) == len(names) else f"{', '.join(about)}: {text}" for text, about in of_text.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for runs, data and profiles")
    parser.add_argument("--only", default=",".join(training.names()))
    parser.add_argument("--cpu", type=float, default=float(os.cpu_count() or 1), help="CPUs of the largest runs")
    parser.add_argument("--run-seconds", type=float, default=20.0)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--wait", type=float, default=600.0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name in args.only.split(","):
        for _ in range(args.tries):
            wait_for_quiet(args.load, args.wait)
            print(f"{name}, load {os.getloadavg()[0]:.1f}", flush=True)
            if profile(name, args.folder, args.cpu, args.run_seconds):
                break
    missing = [name for name in training.names() if not (args.folder / f"{name}.toml").exists()]
    if missing:
        print(f"no catalogue yet: {', '.join(missing)} could not be measured; run it again on an idle machine")
        return 1
    text = catalogue(args.folder, training.names())
    made = args.folder / "examples.toml"
    made.write_text(text, encoding="utf-8")
    profiles.load(made)
    CATALOGUE.write_text(text, encoding="utf-8")
    print(f"wrote {CATALOGUE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
