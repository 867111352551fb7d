"""Who ran what: the harness as it is installed, and the version and commit of the system under test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal

from appliance.digests import digest_of_entries, tree_entries
from appliance.records.plan import TrialPlan
from appliance.records.record import HarnessStamp, ImageStamp, SolverStamp
from appliance.solvers.definition import SolverDefinition

DISTRIBUTION: Final = "bench-appliance"
_ROOT: Final = Path(__file__).resolve().parents[2]
_PACKAGES: Final = ("appliance", "attest")


@cache
def harness_stamp() -> HarnessStamp:
    """Of this program. Commit and dirty are None where it runs from a wheel, or where git cannot say."""
    commit = _git("rev-parse", "--verify", "HEAD") if (_ROOT / ".git").exists() else None
    status = _git("status", "--porcelain") if commit else None
    return HarnessStamp(
        name=DISTRIBUTION,
        version=harness_version(),
        commit=commit,
        dirty=None if status is None else bool(status),
        digest=_source_digest(),
    )


@cache
def harness_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def _source_digest() -> str:
    """Of the packages' own files: the same from a wheel and from the checkout that it was built of."""
    entries = [
        (f"{package}/{path}", "644", digest)
        for package in _PACKAGES
        for path, _, digest in tree_entries(_ROOT / package)
        if "__pycache__" not in path and not path.startswith("_bundle/")
    ]
    return digest_of_entries(entries)


def _git(*words: str) -> str | None:
    try:
        ended = subprocess.run(
            ["git", "-C", str(_ROOT), *words], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None


@dataclass(frozen=True)
class Subject:
    """Version and commit of the system under test, and where they were taken from."""

    version: str | None
    commit: str | None
    source: Literal["flag", "environment", "definition", "release", "unknown"]


def subject_of(
    flag_version: str | None, flag_commit: str | None, environment: Mapping[str, str], definition: SolverDefinition
) -> Subject:
    """Flags before APPLIANCE_*, before ZERO_BENCH_*, before the solver's definition; each of the two by itself.

    `source` is the strongest place that gave one; a definition with a version and no commit is a release.
    """
    places: tuple[tuple[Literal["flag", "environment", "definition"], str | None, str | None], ...] = (
        ("flag", flag_version, flag_commit),
        ("environment", environment.get("APPLIANCE_VERSION"), environment.get("APPLIANCE_COMMIT")),
        ("environment", environment.get("ZERO_BENCH_VERSION"), environment.get("ZERO_BENCH_COMMIT")),
        ("definition", definition.version, definition.commit),
    )
    found_version = next((ver for _, ver, _ in places if ver), None)
    found_commit = next((commit for _, _, commit in places if commit), None)
    place = next((place for place, ver, commit in places if ver or commit), None)
    if place is None:
        return Subject(None, None, "unknown")
    if place == "definition" and found_commit is None:
        return Subject(found_version, None, "release")
    return Subject(found_version, found_commit, place)


def solver_stamp(plan: TrialPlan, subject: Subject) -> SolverStamp:
    return SolverStamp(
        name=plan.solver.name,
        kind=plan.solver.kind,
        digest=plan.solver.digest,
        version=subject.version,
        commit=subject.commit,
        source=subject.source,
        binary_sha256=None,
    )


def image_stamps(plan: TrialPlan) -> tuple[ImageStamp, ...]:
    """Every image of the plan once, by role and name."""
    found: dict[str, ImageStamp] = {}
    for planned in plan.tasks:
        name, images = planned.spec.image, planned.images
        found[f"task:{name}"] = ImageStamp(role=f"task:{name}", pin=images.task, locked=images.rebuildable)
        if images.solver is not None:
            role = f"solver:{plan.solver.name}"
            found[role] = ImageStamp(role=role, pin=images.solver, locked=images.rebuildable)
            role = f"composed:{name}+{plan.solver.name}"
            found[role] = ImageStamp(role=role, pin=images.composed, locked=images.rebuildable)
    return tuple(found[role] for role in sorted(found))
