"""The Protocols that adapters keep. The runner composes them; none of them knows another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from appliance.pins import Pin
from appliance.records.energy import TrialEnergy
from appliance.records.plan import PlannedEnergy, PlannedTask
from appliance.records.record import Check, EngineStamp, HostStamp, MeterStamp
from appliance.records.trial import Usage
from appliance.tasks.model import Limits, Network

RUN_LABEL = "org.bench-appliance.run"
LOCK_LABEL = "org.bench-appliance.lock"
TRIAL_LABEL = "org.bench-appliance.trial"
ROLE_LABEL = "org.bench-appliance.role"

GATEWAY_PORT = 8089
"""Where the forwarder serves the model gateway inside a solver's network namespace, on 127.0.0.1."""
DUMMY_KEY = "appliance-dummy-key"
"""What an agent sends as its key: keys of providers never enter a container."""

# ---------------------------------------------------------------------------------------------- engine


@dataclass(frozen=True)
class Mount:
    """One mount of a container. `bind` sources are host paths of ours; `volume` sources are volume names."""

    kind: Literal["bind", "volume", "tmpfs"]
    source: str
    target: str
    read_only: bool = False
    options: str = ""
    """tmpfs only: `size=64m,uid=1000,mode=0700,exec`."""


@dataclass(frozen=True)
class ContainerSpec:
    """A hardened container; everything that is not here is fixed by the adapter (profile, capabilities, root)."""

    image: str
    """The id that `Engine.resolve` gave."""
    role: str
    labels: Mapping[str, str]
    limits: Limits
    network: Network
    cgroup_parent: str | None
    mounts: tuple[Mount, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "1000:1000"
    workdir: str = "/workspace"
    command: tuple[str, ...] = ("sleep", "infinity")
    """What keeps it alive while idle; its main process runs under an init that reaps."""
    init: bool = True
    """False: `command` itself is process 1, out of reach of `kill -9 -1` from inside (graders); it must reap."""
    network_of: str | None = None
    """The container whose network namespace it shares, and nothing else of it; `network` says nothing then."""
    gpus: bool = False
    """All of the host's (model servers)."""


@dataclass(frozen=True)
class Captured:
    """One stream: exact size and digest of the whole, its head and tail within the cap."""

    total_bytes: int
    sha256: str
    head: bytes
    tail: bytes
    truncated: bool

    @property
    def kept(self) -> bytes:
        """Head and tail as one, with a line that says how much is missing between them."""
        if not self.truncated:
            return self.head + self.tail
        missing = self.total_bytes - len(self.head) - len(self.tail)
        return self.head + f"\n[... {missing} bytes not kept ...]\n".encode() + self.tail


@dataclass(frozen=True)
class ExecSpec:
    argv: tuple[str, ...]
    user: str = "1000:1000"
    workdir: str = "/workspace"
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    timeout_seconds: float | None = None
    capture_bytes: int = 10 * 1024 * 1024
    """Cap a stream, half head and half tail."""
    spool: Path | None = None
    """While it runs, the heads of its streams also lie at this path with `.stdout` and `.stderr` behind it: all that is
    left of them where we are killed. Whoever asked for them removes them."""


@dataclass(frozen=True)
class ExecOutcome:
    """How an exec ended; `exit` is None where its limit ran out first: it still runs then, so kill the container."""

    exit: int | None
    timed_out: bool
    stdout: Captured
    stderr: Captured
    wall_seconds: float
    start_error: str | None = None
    """The engine's words where the program could not be started (126, 127 of a started shell are not this)."""


@dataclass(frozen=True)
class Evidence:
    """Read between the exec's exit and the kill, from the container's own cgroups (row I27). None: not readable."""

    oom_kills: int | None
    pids_denied: int | None
    peak_memory_mib: float | None


@dataclass(frozen=True)
class InForce:
    """What the runtime says of a started container (row I16)."""

    limits: Limits
    network: Network


class Engine(Protocol):
    """A container engine. Raises HostRefused where it is missing or refuses us, EngineFailed elsewhere."""

    def stamp(self) -> EngineStamp: ...

    def resolve(self, pin: Pin) -> str | None:
        """The engine's id of this image, or None. Raises EngineFailed where the layers differ (row I5)."""
        ...

    def load(self, archive: Path) -> None: ...

    def export(self, image: str, archive: Path) -> None:
        """Write an image that the engine holds by digest as an archive (row I11). HostRefused where it has none."""
        ...

    def create(self, spec: ContainerSpec) -> str:
        """The id of a created container that has not started."""
        ...

    def start(self, container: str) -> None: ...

    def in_force(self, container: str, asked: Limits) -> InForce:
        """Limits read back from the runtime; those it does not hold (wall, disk, test) are taken from `asked`."""
        ...

    def execute(self, container: str, spec: ExecSpec, on_started: Callable[[], None] | None = None) -> ExecOutcome:
        """Run to its exit or its limit; output is streamed into the cap, never held whole."""
        ...

    def evidence(self, container: str) -> Evidence: ...

    def put_tree(self, container: str, target: str, tar: Iterable[bytes]) -> None:
        """Unpack a tar stream at `target` (a volume or tmpfs of a running container)."""
        ...

    def remove(self, container: str) -> None:
        """Kill and remove, with anonymous volumes; gone already is fine. Never stops: a stop waits ten seconds."""
        ...

    def processes(self, container: str) -> int:
        """How many processes live in it; 0 for one that is gone."""
        ...


class EngineFailed(Exception):
    """The engine did not do what it was asked, for a reason that is not the solver's: `excluded: engine_error`."""


# ---------------------------------------------------------------------------------------------- workspaces


@dataclass(frozen=True)
class TreeEntry:
    """One path of a tree. `path` is relative, raw bytes, `/`-separated, never with `..`."""

    path: bytes
    kind: Literal["file", "link", "directory", "deleted"]
    executable: bool = False
    content: bytes | Path = b""
    """Bytes; or a path on the host that holds them (large ones); a link's target."""


@dataclass(frozen=True)
class Changes:
    """What a solver changed against the pristine tree, and what of it no patch can say."""

    entries: tuple[TreeEntry, ...]
    dropped: tuple[tuple[bytes, str], ...]
    """`(path, why)`: fifo, socket, device, setuid, git, empty_directory, too_large."""


@dataclass(frozen=True)
class DiskUse:
    used_mib: float
    full: bool
    """No free block was left: cause `disk`."""


class Workspace(Protocol):
    """`/workspace` of one container: a pristine tree, writable, bounded by `disk_mib`."""

    mount: Mount

    def seed(self, container: str) -> None:
        """Fill it where the engine must do it (tmpfs volume); called once after the container has started."""
        ...

    def lay(self, container: str, entries: Sequence[TreeEntry]) -> None:
        """Put entries over the pristine tree of a started container, no-follow; called before any exec in it."""
        ...

    def disk(self) -> DiskUse: ...

    def harvest(self) -> Changes:
        """After the solver's container is gone; no-follow throughout, never git (row I28)."""
        ...

    def close(self) -> None:
        """Unmount, remove; never raises for what is gone already."""
        ...


class Workspaces(Protocol):
    def open(self, pristine: Path, disk_mib: int, labels: Mapping[str, str]) -> Workspace:
        """`pristine` is a task's before/ (never changed); `labels` are the run's, for whatever the engine makes."""
        ...


# ---------------------------------------------------------------------------------------------- meter


@dataclass(frozen=True)
class MeteredTrial:
    """What the meter says of one trial once everything of it is gone."""

    energy: TrialEnergy
    cpu_seconds: Mapping[str, float | None]
    """By role; the solver's is what its window was charged."""
    cpu_source: Literal["cgroup_parent", "stats_one_shot"] | None
    readings: bytes | None
    """readings-v1, from which the energy is computed again at the run's end and by whoever verifies; else None."""
    flags: tuple[str, ...]


class ExchangeWatch(Protocol):
    """Told when the upstream's part of an exchange begins and ends; called off the gateway's own thread."""

    def began(self, order: int) -> None: ...

    def ended(self, order: int) -> None: ...


class TrialMeter(ExchangeWatch, Protocol):
    """The meter's side of one trial, in this order: cgroup paths, open, exchanges, close, release (formats 5).

    What the run's model server takes between an exchange's beginning and its end is the trial's, as role `model`.
    """

    cgroups: Mapping[str, str]
    """Role -> cgroup parent for the engine; empty where the engine makes its own."""

    def open(self) -> None:
        """Right before the solver's exec."""
        ...

    def close(self) -> None:
        """At the solver's exit."""
        ...

    def release(self, wall_seconds: float, *, at_limit: bool) -> MeteredTrial:
        """Once the containers are gone; removes the cgroups. `at_limit`: cause timeout or budget."""
        ...


@dataclass(frozen=True)
class StoredRest:
    """A calibration made earlier that still holds on this machine."""

    readings: bytes
    expires_at: str
    conditions: Mapping[str, str | None]
    """What must be unchanged for it to hold; None: not readable."""


class Meter(Protocol):
    """Joules and CPU time. Many trials may be open at a time.

    A trial whose meter goes away while it runs keeps its outcome, and its energy says why it is missing. `prepare`
    raises MeterRefused where the meter is gone for good: the run ends, and can go on.
    """

    counts: bool
    """Joules come from counters: the machine at rest is looked at before the first trial and after the last."""

    def stamp(self) -> MeterStamp:
        """Without idle and calibration, which are the run's."""
        ...

    def prepare(
        self,
        run: str,
        trial: int,
        planned: PlannedEnergy,
        cpus: float,
        by_kind: bool,
        *,
        roles: tuple[str, ...] = ("solver",),
    ) -> TrialMeter:
        """`trial` counts over all plans of plan.json; `by_kind` marks reference and noop: always below the floor;
        `roles`: a cgroup for each.
        """
        ...

    def harness_cgroup(self, run: str) -> str | None:
        """Parent for baselines and graders, made on first use."""
        ...

    def model_cgroup(self, run: str) -> str | None:
        """Parent for the run's model server, made on first use: before the first trial is prepared."""
        ...

    def stored(self) -> StoredRest | None: ...

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        """Readings of a window around `pause`, in which nothing of ours runs; what `pause` raises is passed on.

        None where the meter has none to give: it counts nothing, or it is gone.
        """
        ...

    def close_run(self, run: str) -> None:
        """Remove what this run's cgroups left."""
        ...


# ---------------------------------------------------------------------------------------------- models


@dataclass(frozen=True)
class Traffic:
    """What one trial asked of its model, once the trial is over."""

    exchanges: int
    usage: Usage | None
    """Of all exchanges; None as soon as one that answered has none."""
    cost_usd: str | None
    """None as soon as one exchange has no price: never a partial sum."""
    cassette: Path | None
    """A file of the gateway's, until it closes; None where nothing was asked."""
    transcript: Path | None
    failed: Literal["provider_failed", "replay_diverged"] | None = None
    detail: str | None = None
    divergence: str | None = None
    """A unified diff against the closest recorded request."""
    over_budget: Literal["trial", "run"] | None = None
    """The first budget that a request was refused for."""
    replay_level: Literal["exact", "masked", "structural"] | None = None
    """The lowest that any exchange needed."""
    differences: tuple[str, ...] = ()
    """What differed from the recorded requests where they matched below `exact`."""
    unused: int = 0
    """Recorded exchanges that were not asked for again."""
    faults: tuple[str, ...] = ()
    answered: int = 0
    """Requests for an answer that got a whole one."""


class TrialGateway(Protocol):
    """One trial's door to its model; its socket lies alone in `folder`, named `gateway.sock`."""

    folder: Path

    def wait_ready(self, timeout_seconds: float) -> bool:
        """Whether the forwarder has been heard of: the road from 127.0.0.1 in the container to here is open."""
        ...

    def finish(self) -> Traffic:
        """Once the solver is gone: refuses what still comes, ends the cassette. May be called once."""
        ...


class Gateway(Protocol):
    """The model of a run: one upstream, one budget over all trials."""

    def open(self, trial: str, *, replay: Path | None = None, watch: ExchangeWatch | None = None) -> TrialGateway:
        """`replay`: a cassette that answers instead of the upstream."""
        ...

    @property
    def spent(self) -> bool:
        """The run's budget is used up: what has not begun is `excluded: budget`."""
        ...


# ---------------------------------------------------------------------------------------------- solvers, images, host


@dataclass(frozen=True)
class SolveCall:
    """What a solver's exec gets, placeholders filled."""

    exec: ExecSpec
    mounts: tuple[Mount, ...] = ()
    """Read-only binds of what the solver needs: the reference of `reference`, the prompt file, the budget."""
    home: bytes = b""
    """A tar that is unpacked at the solver's HOME before its exec (templates); empty where it has none."""
    output: str | None = None
    """The parser of what it prints; None: nothing is read out of that."""
    output_file: str | None = None
    """A path in the container that the parser reads as well."""
    control_socket: str | None = None
    """A cascade's on this host, as a person names it: the exec is its client's, and what that prints its answer."""


class Solver(Protocol):
    """An attempt at a task as one exec in its container."""

    @property
    def name(self) -> str: ...

    def call(self, task: PlannedTask, folder: Path, scratch: Path) -> SolveCall:
        """`folder` is the task's; files that the call mounts are written under `scratch`, a folder of the trial."""
        ...


class Images(Protocol):
    """Pins to images present in the engine (row I6)."""

    def pin(self, name: str) -> tuple[Pin, bool]:
        """The pin of images/<name>, of an engine's image given by digest, or of a registry's given by reference
        (pulled where nothing here knows it yet); and whether a lock of ours rebuilds it.
        """
        ...

    def composed(self, task_image: str, solver_image: str | None) -> Pin:
        """Task image + solver layers, composed by I10's method; equal to the task's pin where there are none."""
        ...

    def ensure(self, pins: Iterable[Pin], planned: Iterable[PlannedTask] = ()) -> Mapping[str, str]:
        """Config digest -> engine id, loading, building or pulling by digest what lacks: before the first trial only.

        `planned`: whose pins they are; it says what they are composed of and which registry has them. Raises
        HostRefused listing what cannot be had.
        """
        ...


class Host(Protocol):
    def stamp(self, engine: EngineStamp, fitness: tuple[Check, ...]) -> HostStamp: ...

    def fitness(self) -> tuple[Check, ...]: ...


class Locks(Protocol):
    """The run's flock; its path is in the label of everything that the run makes (formats 9)."""

    def hold(self, run: str) -> AbstractContextManager[Path]: ...
