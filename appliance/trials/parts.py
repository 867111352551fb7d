"""What a run is composed of, what is asked of it, and what it gives."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from appliance.pins import Sha256
from appliance.ports import Engine, Host, Images, Locks, Meter, Workspaces
from appliance.records.outline import RecordOutline
from appliance.records.plan import PlannedServer, TrialKey
from appliance.trials.model_server import server_argv
from appliance.trials.models import ModelSources, OpenGateway
from appliance.trials.stamps import Subject


@dataclass(frozen=True)
class Adapters:
    """The parts of this machine that a run is composed of."""

    engine: Engine
    workspaces: Workspaces
    images: Images
    meter: Meter
    host: Host
    locks: Locks
    exclusive: Callable[[], AbstractContextManager[object]]
    """Waits for its turn among the exclusive runs of this host."""
    reaper: Callable[[str, Path], AbstractContextManager[object]]
    """`(run, lock)`: what kills and removes everything of the run once this program is gone, however it went."""
    reap: Callable[[str], object]
    """Removes what is left of a run, now."""
    scratch: Callable[[str], Path]
    """A folder of this run's own, absolute, that goes with its leavings."""
    locked_version: Callable[[str, str], str | None]
    """`(image, program)`: its version in the image's lock; None where it has none."""
    binds_tests: bool
    """The engine is local and we are root: the grader's tests are bound into its container."""
    gateway: OpenGateway
    """What stands between a run's solvers and their model."""
    server_argv: Callable[[PlannedServer, str], tuple[str, ...]] = server_argv
    """What serves a model of this name in its container."""


@dataclass(frozen=True)
class RunOptions:
    subjects: Mapping[str, Subject]
    """Solver's name -> what is under test."""
    run: str | None = None
    """Its id, where the caller has chosen one; a resumed run keeps its own."""
    jobs: int = 1
    resume: bool = False
    retry_errored: bool = False
    only: frozenset[TrialKey] | None = None
    """Trials of every plan to run; None: all of them."""
    trust: str | None = None
    keep_suite: bool = True
    """Whether the suite's files are kept among the blobs, so that the folder alone can be reproduced."""
    challenge: bytes | None = None
    """The document that the plans name the digest of: kept among the blobs of a run that begins."""
    strict_host: bool = False
    idle_seconds: float | None = None
    """Length of each look at the machine at rest, where joules come from counters; None: that of the run which goes
    on, else the usual one."""
    model: ModelSources = field(default_factory=ModelSources)
    cascade_socket: Path | None = None
    """Where the solvers of kind cascade are answered: a place of this host, and no part of any plan."""
    replays: Mapping[TrialKey, Path] | None = None
    """The cassette that answers each of the trials; no model is asked then, and no key is needed."""
    report: Callable[[str], None] = lambda _words: None
    """Told of steps that take a while."""


@dataclass(frozen=True)
class RunEnded:
    """`records`, by their paths, and what is known of each are in the order of the plans."""

    run: str
    folder: Path
    records: tuple[Path, ...]
    digests: tuple[Sha256, ...]
    """sha256 of each record's bytes."""
    outlines: tuple[RecordOutline, ...]
    failing: str | None
    """Why the run was given up before its end; None where it was not."""
    started: int
    """Trials that were run by this call."""
    rested_seconds: float = 0.0
    """Spent looking at the idle machine."""

    def by_name(self) -> tuple[RecordOutline, ...]:
        """Outlines in the order of their records' files, as a report over the folder has them."""
        named = sorted(zip(self.records, self.outlines, strict=True), key=lambda pair: pair[0])
        return tuple(outline for _, outline in named)

    @property
    def incomplete(self) -> int:
        """Trials of the records that errored or were excluded."""
        return sum(trial.outcome in ("errored", "excluded") for record in self.outlines for trial in record.trials)


def new_run_id() -> str:
    """Sorts by time; letters, digits and `_`, which every kind of cgroup name takes."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}_{secrets.token_hex(4)}"
