"""The meter of a run, found before its plan is made: the plan says how windows are held, and counters decide that.

A meter that answers at the socket is taken before one of our own; root starts the same code as a child (formats 5, 9).
"""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from appliance import mends
from appliance.errors import HostRefused, MeterRefused, UsageRefused
from appliance.meter.choice import Choice, choose, refuse_other_source
from appliance.meter.client import SOCKET, MeterClient
from appliance.meter.counters.search import POWERCAP, CounterSearch, look_for_counters
from appliance.meter.fitting import refuse_absent_root, refuse_beside_socket
from appliance.meter.line import UNREACHED, MeterLine
from appliance.meter.local import NAME as LOCAL
from appliance.meter.plugins import meter_names
from appliance.records.words import EnergyMode

_ANSWER_SECONDS: Final = 20.0
"""A meter that was stopped for a while and goes on is no dead one (energy row T10)."""
_MOST_SAID: Final = 64 * 1024


@dataclass(frozen=True)
class Wish:
    """What the command line says of the meter."""

    socket: Path | None = None
    powercap: Path | None = None
    """Another root of counters than the kernel's: its figures are `simulated`."""
    cpu_backend: str | None = None
    counters: tuple[str, ...] = ()
    name: str | None = None
    """A meter plug-in."""
    usual: Path = SOCKET
    """Where a daemon answers that nobody named."""

    @property
    def own(self) -> tuple[str, ...]:
        """What a meter of our own is started with; a daemon that runs already has counters of its own choice."""
        words = ["--powercap-root", str(self.powercap)] if self.powercap else []
        words += ["--cpu-backend", self.cpu_backend] if self.cpu_backend else []
        for name in self.counters:
            words += ["--counter", name]
        return tuple(words)


@dataclass(frozen=True)
class Decided:
    """Where a run's joules come from; leaving it ends the meter that was started for it."""

    choice: Choice
    wish: Wish
    line: MeterLine | None
    """To the meter that gives cgroups, and counters where there are any; None: everything is done here."""

    @property
    def counts(self) -> bool:
        return self.choice.source == "counters"

    @property
    def words(self) -> str:
        """Which meter was taken, and what it reads: among a run's first lines."""
        estimated = "joules are estimated" + (f": {self.choice.reason}" if self.choice.reason else ", as was asked")
        if self.line is None:
            plugged = self.wish.name is not None and self.wish.name != LOCAL
            return f"meter: {self.wish.name}, a plug-in" if plugged else f"meter: none; {estimated}"
        who = f"meter: {self.line.where}"
        if not self.counts:
            return f"{who}, for cgroups and CPU time; {estimated}"
        labels = {str(zone.get("provenance")) for zone in self.line.status["counters"] if zone.get("summed", True)} - {
            "hw_shunt"
        }
        label = f" ({', '.join(sorted(labels))})" if labels else ""
        return f"{who}; counters: {', '.join(self.line.counters.found)}{label}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.line is not None:
            self.line.close()


def decide(
    mode: EnergyMode,
    wish: Wish,
    *,
    watts_set: bool,
    reachable: bool = True,
    began_with: Literal["counters", "model"] | None = None,
    may_lack: bool = False,
) -> Decided:
    """Raises MeterRefused where energy cannot be stated as asked, HostRefused where root alone may do what was asked.

    `reachable`: the engine's cgroups are this host's. `began_with`: what the run that goes on has figures of.
    `may_lack`: `measured` without a counter is no refusal; its joules are missing then.
    """
    if wish.name is not None and wish.name not in meter_names():
        raise UsageRefused(
            f"no meter is called {wish.name!r}", where="--meter", mend=f"known: {', '.join(meter_names())}"
        )
    refuse_beside_socket(wish.socket, wish.own if wish.name is None else ("--meter", *wish.own))
    refuse_absent_root(wish.powercap)
    if wish.name is not None and wish.name != LOCAL:
        # What it reads is its own; that it reads something beside which nothing of ours should run is to be assumed.
        return Decided(Choice("counters", None), wish, None)
    search = CounterSearch((), "NoCounter", "the engine is rootless or remote: no meter reaches its containers")
    line: MeterLine | None = None
    if wish.name == LOCAL:
        search = CounterSearch((), "NoCounter", f"the meter {LOCAL!r} reads no counter", "leave --meter away")
    elif reachable:
        line, search = _reach(mode, wish)
    try:
        choice = choose(
            "auto" if may_lack and not search.found and mode == "measured" else mode,
            watts_set=watts_set,
            counters=search,
            # Where no cgroup can be read, the engine's own statistics stand in.
            cpu_readable=True,
            began_with_model=began_with == "model",
        )
        refuse_other_source(choice, began_with)
    except MeterRefused:
        if line is not None:
            line.close()
        raise
    if line is not None and choice.source == "counters":
        line.require_counters()
    elif line is not None and os.geteuid() == 0 and wish.socket is None:
        # Root reads cgroups exactly by itself.
        line.close()
        line = None
    return Decided(choice, wish, line)


def _reach(mode: EnergyMode, wish: Wish) -> tuple[MeterLine | None, CounterSearch]:
    root, estimates = os.geteuid() == 0, mode.startswith("estimator")
    if wish.socket is not None:
        return at_socket(wish.socket)
    if not wish.own and not (root and estimates) and wish.usual.exists():
        try:
            return at_socket(wish.usual)
        except MeterRefused as refusal:
            if refusal.reason not in UNREACHED:
                raise
            if isinstance(refusal.__cause__, PermissionError):
                word = errno.errorcode.get(refusal.__cause__.errno or 0, "EACCES")
                return None, CounterSearch((), "PrivilegeRequired", f"{word} {wish.usual}", refusal.mend)
            # A socket that a daemon left behind is none.
    if estimates:
        return None, CounterSearch((), "NoCounter", "an estimator was asked for")
    return _as_child(wish) if root else (None, _for_a_user(wish))


def _for_a_user(wish: Wish) -> CounterSearch:
    """Without a meter that answers: why the counters of this host are none to an ordinary user."""
    if wish.own:
        raise HostRefused(
            "only root starts a meter of its own",
            where=wish.own[0],
            mend=f"sudo, or give them to the daemon: {mends.as_root('meter serve')}",
        )
    search = look_for_counters(POWERCAP)
    if search.lack == "NoCounter":
        return search
    reason = search.reason or f"{', '.join(search.found)}: only root and the meter give a trial a cgroup of its own"
    return CounterSearch((), "PrivilegeRequired", reason, mends.start_meter())


def at_socket(path: Path) -> tuple[MeterLine, CounterSearch]:
    """Raises MeterRefused, with what mends it, where no meter of this version answers us there."""
    line = MeterLine(lambda: MeterClient.connect(path, _ANSWER_SECONDS), f"the daemon at {path}")
    return line, line.counters


def _as_child(wish: Wish) -> tuple[MeterLine | None, CounterSearch]:
    search = look_for_counters(wish.powercap or POWERCAP)
    if not search.found and wish.cpu_backend is None and not wish.counters and not _nvidia():
        return None, search
    line = MeterLine(lambda: _started(wish.own), "one started for this run")
    if line.counters.found:
        return line, line.counters
    line.close()
    return None, line.counters


def _started(words: tuple[str, ...]) -> MeterClient:
    """What it says of itself is shown only where it refuses to start: the readings tell the rest."""
    with tempfile.TemporaryFile() as said:
        try:
            return MeterClient.start(words, _ANSWER_SECONDS, stderr=said)
        except MeterRefused as refusal:
            said.seek(0)
            last = said.read(_MOST_SAID).decode(errors="replace").strip().rpartition("\n")[2]
            raise MeterRefused(last or refusal.message, where=None, reason="no_counter") from refusal


def _nvidia() -> bool:
    """Whether NVIDIA's library is here at all; the meter asks it for cards."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True
