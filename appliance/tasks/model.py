"""What is asked: suites and tasks as values, already checked; one reader a format makes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from appliance.pins import Sha256
from appliance.wire import EXACT, Wire

Network = Literal["none", "open"]
OracleFormat = Literal["junit", "tap", "exit_code"]
Isolation = Literal["user", "none"]


class Limits(Wire):
    """What the solver gets; `test_seconds` is the oracle's."""

    wall_seconds: Annotated[float, EXACT] = Field(default=600.0, gt=0)
    cpus: Annotated[float, EXACT] = Field(default=1.0, gt=0)
    memory_mib: Annotated[int, EXACT] = Field(default=2048, ge=16)
    pids: Annotated[int, EXACT] = Field(default=256, ge=8)
    disk_mib: Annotated[int, EXACT] = Field(default=1024, ge=8)
    test_seconds: Annotated[float, EXACT] = Field(default=120.0, gt=0)


class OracleSpec(Wire):
    """How the verdict is read (formats 1 and 7)."""

    format: Annotated[OracleFormat, EXACT]
    path: Annotated[str | None, EXACT]
    """Where `test_cmd` writes the JUnit report, inside /grade; None for tap and exit_code."""
    isolation: Annotated[Isolation, EXACT]
    fail_to_pass: Annotated[tuple[str, ...], EXACT]
    pass_to_pass: Annotated[tuple[str, ...], EXACT]

    @property
    def lists_ids(self) -> bool:
        return bool(self.fail_to_pass or self.pass_to_pass)


class TaskSpec(Wire):
    """A task without its files: everything that decides what is asked and how it is judged; part of the plan."""

    name: Annotated[str, EXACT]
    digest: Annotated[Sha256, EXACT]
    """Digest of the task's folder, by `digests.tree_digest`."""
    prompt: Annotated[str, EXACT]
    test_cmd: Annotated[tuple[str, ...], EXACT]
    """Never a shell string: one given as a string is `("sh", "-c", string)` here."""
    test_files: Annotated[tuple[str, ...], EXACT]
    """Relative POSIX paths."""
    image: Annotated[str, EXACT]
    """A name in images/, a pin's config digest, or `HOST/REPOSITORY@sha256:...` in a registry."""
    network: Annotated[Network, EXACT]
    protected: Annotated[tuple[str, ...], EXACT]
    allow: Annotated[tuple[str, ...], EXACT]
    limits: Annotated[Limits, EXACT]
    oracle: Annotated[OracleSpec, EXACT]


@dataclass(frozen=True)
class Task:
    """A task and where its files lie; `folder` is outside the value: equal specs are the same task anywhere."""

    spec: TaskSpec
    folder: Path

    @property
    def before(self) -> Path:
        return self.folder / "before"

    @property
    def reference(self) -> Path | None:
        """The folder `reference/` or the file `reference.patch`; None where the task has neither."""
        for name in ("reference", "reference.patch"):
            if (self.folder / name).exists():
                return self.folder / name
        return None

    def test_file(self, relative: str) -> Path:
        """Where a test file's pristine bytes lie: in tests/, else in before/ (the reader made sure of one)."""
        hidden = self.folder / "tests" / relative
        return hidden if hidden.exists() else self.before / relative


@dataclass(frozen=True)
class Suite:
    """Tasks that are reported together, sorted by name."""

    name: str
    version: str
    license: str | None
    weight: float
    timeout_resolves: bool
    digest: str
    folder: Path
    tasks: tuple[Task, ...]
    quarantined: dict[str, str]
    """Task name -> reason, from checks.json."""
    forgeable: dict[str, tuple[str, ...]]
    """Task name -> the forgers that resolve it, from checks.json."""
    checks_digest: str | None
    """sha256 of checks.json, None where the suite was never checked."""

    def task(self, name: str) -> Task:
        return next(task for task in self.tasks if task.spec.name == name)
