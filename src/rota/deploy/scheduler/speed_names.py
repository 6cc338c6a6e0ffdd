"""Under which name the speed of a job is learned: its profile, or a fingerprint of its command.

The fingerprint of a command is `SCRIPT~HASH`: the name of its script, and eight hexadecimal digits of what is left of
the image, the program and its arguments without their volatile parts:

- of a word with slashes the last component only, so a copy of the script in another folder is the same script;
- options that say how long, where to and under which name it trains, and not what (`VOLATILE`): left out with value;
- dates, times, UUIDs and hashes of at least eight digits: left out within words.

Everything else counts, the batch size above all. Emulated jobs with a model go by model and batch. Names belong to the
tenant that submits; two tenants with the same command learn apart.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterator

from rota.core.job_spec import UNPROFILED, JobSpec
from rota.deploy.scheduler.catalogue import OpenCatalogue

VOLATILE = frozenset(
    {
        "checkpoint", "checkpoint-dir", "ckpt", "ckpt-dir", "epochs", "exp-name", "experiment", "experiment-name",
        "job-id", "job-name", "learning-rate", "local-rank", "log", "log-dir", "log-file", "logdir", "lr",
        "master-addr", "master-port", "max-epochs", "max-iterations", "max-steps", "name", "node-rank", "num-epochs",
        "num-steps", "out", "out-dir", "output", "output-dir", "port", "project", "rank", "resume", "resume-from",
        "run-id", "run-name", "save", "save-dir", "seed", "steps", "tag", "tags", "tensorboard-dir", "total-steps",
        "wandb-name", "weight-decay",
    }
)  # fmt: skip
"""Options without their dashes, `_` as `-`."""
_PASSING = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T_ -]?\d\d[:-]?\d\d(?:[:-]?\d\d)?)?"
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?<![0-9a-zA-Z])(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}(?![0-9a-zA-Z])"
)
_LONGEST_SCRIPT = 40
_SCRIPTS = (".py", ".sh", ".pl", ".jl", ".lua", ".R")


def speed_name(spec: JobSpec) -> str:
    """The name under which the speed of a job is learned; empty for one that runs as fast as the scheduler says."""
    if spec.emulated and not spec.model:
        return ""
    if spec.scheduled_profile != UNPROFILED:
        return spec.profile
    if spec.emulated:
        return f"{spec.model} (batch size {spec.batch or 1})"
    return fingerprint(spec.argv, spec.image)


def engine_profile(spec: JobSpec) -> str:
    """The profile by which the engine schedules a job: of one that nobody measured, the name under which it is learned.

    A job that neither has a profile nor says how many steps it has is a job of an hour on one GPU, whatever its speed.
    """
    if spec.scheduled_profile == UNPROFILED and spec.steps == 0:
        return UNPROFILED
    return speed_name(spec) or spec.scheduled_profile


def belief_of(spec: JobSpec) -> str:
    """Among whose jobs the engine finds out the speed of this one: those of its tenant; empty: it does not."""
    learns = speed_name(spec) and engine_profile(spec) != UNPROFILED
    return (spec.tenant or "default") if learns else ""


def full_profile(catalogue: OpenCatalogue, spec: JobSpec) -> str:
    """The full name of the profile of a job that is submitted: a new one if its speed can be learned under it.

    A job without a profile has the one that the catalogue has for its command or model. Raises ConfigError.
    """
    learned_as = speed_name(spec)
    if spec.scheduled_profile == UNPROFILED and catalogue.measured(learned_as):
        return learned_as
    named = catalogue.named_or_new if learned_as else catalogue.named
    return named(spec.scheduled_profile)


def engine_kind(spec: JobSpec) -> tuple[str, str, int] | None:
    """(profile, belief, GPUs) by which the engine knows the speed of a job that is learned; None: it is not."""
    belief = belief_of(spec)
    return (engine_profile(spec), belief, spec.gpus) if belief else None


@functools.lru_cache(maxsize=4096)
def fingerprint(argv: tuple[str, ...], image: str = "") -> str:
    """The name of a command."""
    words = [image, *_lasting(argv)]
    digits = hashlib.sha256(json.dumps(words).encode()).hexdigest()[:8]
    return f"{_script(argv)}~{digits}"


def _lasting(argv: tuple[str, ...]) -> Iterator[str]:
    """The words that say what is trained."""
    skip_value = False
    for at, word in enumerate(argv):
        if skip_value and not word.startswith("-"):
            skip_value = False
            continue
        skip_value = False
        option, equals, _ = word.partition("=")
        if at and option.startswith("-") and option.lstrip("-").replace("_", "-").lower() in VOLATILE:
            skip_value = not equals
            continue
        yield _PASSING.sub("*", _last_components(word))


def _last_components(word: str) -> str:
    """`--data=/srv/imagenet/` is `--data=imagenet`, `a/b` is `b`."""
    option, equals, value = word.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={_last_component(value)}"
    return _last_component(word)


def _last_component(text: str) -> str:
    return text.rstrip("/").rpartition("/")[2] or text


def _script(argv: tuple[str, ...]) -> str:
    """What people call the command: its script, the module after -m, or the program."""
    words = [_last_component(word) for word in argv]
    module = words[words.index("-m") + 1] if "-m" in words[:-1] else ""
    script = next((word for word in words if word.endswith(_SCRIPTS) and not word.startswith("-")), "")
    name = script or module or (words[0] if words else "command")
    return "".join(c if c.isprintable() and c != "~" else "?" for c in name)[:_LONGEST_SCRIPT]
