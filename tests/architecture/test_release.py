"""What a release consists of: exact versions with hashes, under licences that Apache-2.0 can be combined with."""

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rota.core.parsing import parse_toml

ROOT = Path(__file__).parents[2]
PROJECT = parse_toml((ROOT / "pyproject.toml").read_text())["project"]
LOCK = ROOT / "requirements" / "release.txt"
EXTRAS = ("deploy", "plot", "dashboard")
RELEASED_WITH = {"python_version": "3.11", "python_full_version": "3.11.0", "extra": ""}
PERMISSIVE = frozenset(
    {
        "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
        "3-Clause BSD License", "Apache Software License", "BSD License", "MIT License",
        "Python Software Foundation License",
    }
)  # fmt: skip
"""Names as SPDX, classifiers and authors write them. All ask for a notice at most."""
BY_HAND: dict[str, str] = {}
"""Distribution to why it may be used although its metadata does not say so: who looked, at what."""


def direct():
    """Requirements of Rota itself with the extras of a deployment and of figures."""
    wanted = [*PROJECT["dependencies"], *(text for extra in EXTRAS for text in PROJECT["optional-dependencies"][extra])]
    requirements = map(Requirement, wanted)
    return [r for r in requirements if r.marker is None or r.marker.evaluate(RELEASED_WITH)]


def everything():
    """All distributions that those need, with what they need in turn, as they are installed here."""
    known = {}
    waiting = direct()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in known and (requirement.marker is None or requirement.marker.evaluate(RELEASED_WITH)):
            known[name] = metadata.distribution(requirement.name)
            waiting += map(Requirement, known[name].requires or ())
    return known


def locked():
    """Name to version and hashes."""
    entries = {}
    for entry in re.split(r"\n(?=[a-zA-Z0-9])", LOCK.read_text()):
        pinned = re.match(r"([A-Za-z0-9_.-]+)==([^\s;]+)", entry)
        assert pinned, f"not NAME==VERSION: {entry[:80]}"
        entries[canonicalize_name(pinned[1])] = (pinned[2], re.findall(r"--hash=sha256:([0-9a-f]{64})\b", entry))
    return entries


def licences(distribution):
    """What a distribution says about itself, in the place that says it most exactly."""
    said = distribution.metadata
    if said.get("License-Expression"):
        return re.split(r"\s+(?:AND|OR|WITH)\s+", said["License-Expression"].replace("(", "").replace(")", ""))
    classifiers = [c for c in said.get_all("Classifier") or () if c.startswith("License :: ")]
    return [c.rpartition(" :: ")[2] for c in classifiers] or [(said.get("License") or "").strip() or "unknown"]


def refused(distribution):
    """Licences of a distribution that are not known to be permissive."""
    return [licence for licence in licences(distribution) if licence not in PERMISSIVE]


def test_the_lock_file_pins_everything_that_a_release_needs():
    pinned = locked()

    assert sorted(set(everything()) - set(pinned)) == [], "run `make lock`"
    for requirement in direct():
        version, _ = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}; run `make lock`"


def test_everything_in_the_lock_file_has_hashes_and_no_place_to_come_from():
    assert [name for name, (_, hashes) in locked().items() if not hashes] == []
    assert re.findall(r"://|--(?:extra-)?index-url|--find-links|@ ", LOCK.read_text()) == []


@pytest.mark.parametrize("name", sorted(everything()))
def test_a_dependency_has_a_licence_that_we_may_build_on(name):
    assert name in BY_HAND or refused(everything()[name]) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("License-Expression", "MIT AND GPL-3.0-only"),
        ("Classifier", "License :: OSI Approved :: GNU Lesser General Public License v3 (LGPLv3)"),
        ("License", "AGPLv3"),
        ("Name", "silent"),
    ],
)
def test_other_licences_and_none_at_all_are_refused(tmp_path, field, value):
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.4\nVersion: 1\n{field}: {value}\n")

    assert refused(metadata.PathDistribution(tmp_path)) != []
