"""`make fuzz`: every reader and every door of Rota is given inputs that nobody would write, for so many minutes.

    python tests/fuzzing/run.py --minutes 20          all targets, the time divided among them
    python tests/fuzzing/run.py --target cluster      only those whose names begin so
    python tests/fuzzing/run.py --replay FILE         one input that was kept, again; its name begins with its target

A target runs in a process of its own. An input is a fault if anything but an error meant for people comes out, if it
takes longer than five seconds of the processor, if the process holds more than 1 GB, or if it dies. Inputs with faults
are kept.
"""

import argparse
import collections
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
LATER = frozenset({"replay"})
"""Targets that run only when they are named: they have faults that are known and not mended yet."""
_SILENT_S = 120.0
"""After this long without a word of a target its process is ended: it hangs where no signal is heard."""
_MOST_KEPT = 5
"""Inputs of one and the same fault."""


def makers():
    """All targets by name; slow to import, so only where one is run."""
    from doors import DOORS
    from targets import FILES, SELF

    return {**FILES, **DOORS, **(SELF if os.environ.get("ROTA_FUZZ_SELF_TEST") else {})}


def _child(name, seconds, seed, scratch, most):
    """Feed one target; a line of JSON about each fault and, at the end, about all inputs."""
    import oracle
    from mutation import Mutator

    oracle.limit_memory()
    target = makers()[name](scratch)
    mutator = Mutator(seed)
    current = scratch / "current"
    counts = collections.Counter()
    for data in target.seeds:
        rejected, fault = oracle.judge(target.feed, data)
        if rejected or fault:
            _say(fault=f"a good input is refused\n{fault}", input=_kept(current, data))
    end = time.monotonic() + seconds
    said = time.monotonic()
    while time.monotonic() < end and counts["inputs"] < most:
        data = target.input(mutator)
        current.write_bytes(data)
        rejected, fault = oracle.judge(target.feed, data)
        if fault is None and oracle.peak_rss() > oracle.MOST_RSS:
            fault = f"memory: {oracle.peak_rss() / 1e6:,.0f} MB"
            end = 0.0  # the peak stays; a new process goes on
        counts.update(inputs=1, rejected=rejected)
        if fault is not None:
            _say(fault=fault, input=_kept(current, data))
        if time.monotonic() - said > 1.0:
            said = time.monotonic()
            _say(**counts)
    target.close()
    _say(**counts, rss=oracle.peak_rss(), done=True)


def _kept(current, data):
    name = current.with_name(f"fault-{hashlib.sha256(data).hexdigest()[:12]}")
    name.write_bytes(data)
    return str(name)


def _say(**fields):
    print(json.dumps(fields), flush=True)


class Campaign:
    """The parent: targets one after the other, what they found, and the table at the end."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.seed = seed
        self.rows = []
        self.faults = {}

    def fuzz(self, name, seconds, most=sys.maxsize):
        """Run one target for so long, in as many processes as it takes."""
        totals = collections.Counter()
        peak = 0
        end = time.monotonic() + seconds
        turn = 0
        while turn == 0 or (time.monotonic() < end - 1.0 and totals["inputs"] < most and turn < 20):
            left = max(end - time.monotonic(), 0.1)
            counts = self._one_process(name, left, self.seed + turn, most - totals["inputs"])
            totals.update(inputs=counts.get("inputs", 0), rejected=counts.get("rejected", 0))
            totals["found"] += counts["found"]
            peak = max(peak, counts.get("rss", 0))
            turn += 1
        self.rows.append((name, totals["inputs"], totals["rejected"], totals["found"], peak))
        return totals

    def _one_process(self, name, seconds, seed, most):
        counts = {"found": 0}
        with tempfile.TemporaryDirectory(prefix="rota-fuzz-") as scratch:
            command = [
                sys.executable, __file__, "--child", name, "--seconds", str(seconds), "--seed", str(seed),
                "--inputs", str(most), "--scratch", scratch,
            ]  # fmt: skip
            errors = Path(scratch, "stderr")
            with errors.open("wb") as stderr:
                child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
            watched = _Watched(child)
            for line in watched.lines():
                told = json.loads(line)
                if "fault" in told:
                    counts["found"] += self._keep(name, Path(told["input"]).read_bytes(), told["fault"])
                else:
                    counts.update(told)
            child.stdout.close()
            if child.wait() != 0 or "done" not in counts:
                current = Path(scratch, "current")
                data = current.read_bytes() if current.exists() else b""
                why = "hang: ended from outside" if watched.ended else f"the process ended with {child.returncode}"
                counts["inputs"] = counts.get("inputs", 0) + 1
                counts["found"] += self._keep(name, data, f"{why}\n{errors.read_text(errors='replace')[-3000:]}")
        return counts

    def _keep(self, name, data, fault):
        """Keep an input with what it does; 1 if this was not known."""
        place = (name, _where(fault))
        known = self.faults.setdefault(place, [])
        known.append(len(data))
        if len(known) > _MOST_KEPT:
            return 0
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        path.with_name(f"{path.name}.txt").write_text(fault, encoding="utf-8", errors="replace")
        if len(known) == 1:
            print(f"  FAULT in {name}: {_where(fault)}\n    again with: {sys.executable} {__file__} --replay {path}")
        return int(len(known) == 1)

    def table(self):
        """What was done, for people."""
        lines = [f"{'target':<22}{'inputs':>10}{'rejected':>10}{'found':>7}{'peak MB':>9}"]
        lines += [f"{name:<22}{n:>10,}{r:>10,}{f:>7}{peak / 1e6:>9,.0f}" for name, n, r, f, peak in self.rows]
        inputs, rejected, found = (sum(row[i] for row in self.rows) for i in (1, 2, 3))
        peak = max((row[4] for row in self.rows), default=0)
        return "\n".join([*lines, f"{'all':<22}{inputs:>10,}{rejected:>10,}{found:>7}{peak / 1e6:>9,.0f}"])


class _Watched:
    """Lines of a child; it is ended when it says nothing for long."""

    def __init__(self, child):
        self._child = child
        self.ended = False

    def lines(self):
        import select

        while True:
            ready, _, _ = select.select([self._child.stdout], [], [], _SILENT_S)
            if not ready:
                self.ended = True
                self._child.kill()
            line = self._child.stdout.readline()
            if not line:
                return
            yield line


def _where(fault):
    """The kind of a fault: the last line of the traceback and the place in our code, without values."""
    places = re.findall(r'File "[^"]*/(src/rota/[^"]*)", line (\d+)', fault)
    last = fault.strip().splitlines()[-1] if fault.strip() else "nothing was said"
    kind = last.split(":")[0] if places else last
    return f"{kind[:150]} at {places[-1][0]}:{places[-1][1]}" if places else kind[:150]


def _replay(path):
    import oracle

    oracle.limit_memory()
    every = makers()
    name = max((n for n in every if path.name.startswith(f"{n}-")), key=len)
    with tempfile.TemporaryDirectory(prefix="rota-fuzz-") as scratch:
        target = every[name](Path(scratch))
        try:
            data = path.read_bytes()
            rejected, fault = oracle.judge(target.feed, lzma.decompress(data) if path.suffix == ".xz" else data)
        finally:
            target.close()
        if fault is None and oracle.peak_rss() > oracle.MOST_RSS:
            fault = f"memory: {oracle.peak_rss() / 1e6:,.0f} MB"
    print(fault or ("refused with a message" if rejected else "accepted"))
    return 1 if fault else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=5.0)
    options.add_argument("--target", action="append", default=[])
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options.add_argument("--found", type=Path, default=Path("fuzz-found"))
    options.add_argument("--replay", type=Path)
    options.add_argument("--child", help=argparse.SUPPRESS)
    options.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options.add_argument("--inputs", type=int, default=sys.maxsize, help=argparse.SUPPRESS)
    options.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        return _child(given.child, given.seconds, given.seed, given.scratch, given.inputs)
    if given.replay:
        return _replay(given.replay)
    return _campaign(given)


def _campaign(given):
    names = [n for n in makers() if (any(n.startswith(t) for t in given.target) if given.target else n not in LATER)]
    seconds = 60.0 * given.minutes / len(names)
    shutil.rmtree(given.found, ignore_errors=True)
    campaign = Campaign(given.found, given.seed)
    print(f"{len(names)} targets, {seconds:.0f} s each, seed {given.seed}", flush=True)
    for number, name in enumerate(names, 1):
        totals = campaign.fuzz(name, seconds)
        print(f"[{number}/{len(names)}] {name}: {totals['inputs']:,} inputs, {totals['found']} faults", flush=True)
    print(campaign.table())
    if campaign.faults:
        print(f"{len(campaign.faults)} faults; the inputs and what they do are in {given.found}")
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
