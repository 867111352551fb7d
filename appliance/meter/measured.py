"""The meter over its daemon: cgroups, CPU time and joules of a trial from one window's readings.

A meter that goes away costs the trials in flight their energy, never their outcome; the next `prepare` reaches it
anew, or ends the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from appliance.cgroups import hierarchies, remove_run_cgroups
from appliance.energy.exchanges import EXCHANGE
from appliance.energy.grades import Grade
from appliance.energy.idle import rest_of
from appliance.energy.readings import GpuSharing, Malformed, unpack
from appliance.energy.windows import window_of
from appliance.errors import MeterRefused
from appliance.meter.calibration import Calibration, measure_rest, usable
from appliance.meter.choice import Choice
from appliance.meter.client import MeterClient
from appliance.meter.daemon.messages import Prepared
from appliance.meter.daemon.releasing import boot_id
from appliance.meter.figures import Estimating
from appliance.meter.line import UNREACHED, MeterLine
from appliance.meter.local import CGROUPFS, HostCgroups, processor_of
from appliance.meter.rests import RestsSoFar
from appliance.ports import MeteredTrial, StoredRest
from appliance.records.metered import cpu_seconds, lost, ran_on, trial_energy
from appliance.records.plan import PlannedEnergy
from appliance.records.record import MeterStamp

NAME: Final = "meter"
MODEL: Final = "model"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_NEVER_OPENED: Final = "the window was never opened"
Done = TypeVar("Done")


class MeasuredMeter:
    """A `ports.Meter` over a daemon that answers. Without counters it gives cgroups and CPU time to an estimator."""

    def __init__(
        self,
        planned: PlannedEnergy,
        choice: Choice,
        line: MeterLine,
        engine: HostCgroups = CGROUPFS,
    ):
        self.counts = choice.source == "counters"
        self._choice = choice
        self._line = line
        self._driver = engine.driver
        self._rests = RestsSoFar()
        self._own: dict[tuple[str, str, MeterClient], Prepared] = {}
        """Of runs, by run, role and whom we asked."""
        self._known: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()
        zones = line.status["counters"] if self.counts else ()
        self._stamp = MeterStamp(
            name=NAME,
            version=str(line.status["version"]),
            counters=tuple(f"{zone['key']}: {zone['source']}" for zone in zones),
            idle=None,
            calibration=None,
            mode=planned.mode,
            reason=choice.reason,
        )

    def stamp(self) -> MeterStamp:
        return self._stamp

    def prepare(
        self,
        run: str,
        trial: int,
        planned: PlannedEnergy,
        cpus: float,
        by_kind: bool,
        *,
        roles: tuple[str, ...] = ("solver",),
    ) -> MeasuredTrial:
        del cpus  # what the trial may take is the engine's to hold; what it took is read
        if (run, MODEL) in self._known:
            # Also of a meter that came back: the server's cgroup is in its windows again.
            self.model_cgroup(run)
            charged = (*roles, MODEL)
        else:
            charged = roles
        client, prepared = self._prepared(run, trial, roles)
        estimating = None
        if self._choice.source != "counters":
            estimating = Estimating(self._choice.source, processor_of(), planned.active_watts)
        return MeasuredTrial(
            self._line,
            client,
            prepared,
            roles=charged,
            by_kind=by_kind,
            rests=self._rests,
            estimating=estimating,
            gpu_sharing=planned.gpu_sharing,
        )

    def harness_cgroup(self, run: str) -> str | None:
        return self._of_the_run(run, "harness")

    def model_cgroup(self, run: str) -> str | None:
        return self._of_the_run(run, MODEL)

    def _of_the_run(self, run: str, role: str) -> str:
        """Also of a meter that is gone: the trial that it left behind is graded all the same, and the engine makes
        the cgroup anew where it has to."""
        with self._lock:
            try:
                client = self._line.client()
            except MeterRefused:
                if (run, role) in self._known:
                    return self._known[run, role]
                raise
            if (run, role, client) not in self._own:
                client, prepared = self._prepared(run, None, (role,))
                self._own[run, role, client] = prepared
                self._known[run, role] = prepared.cgroups[role]
            return self._known[run, role]

    def stored(self) -> StoredRest | None:
        if not self.counts:
            return None
        found, _ = usable(self._line.status["counters"])
        if found is None or found.rest.boot_id != _boot():
            # The line between two looks is one of the kernel's clock since its boot.
            return None
        self._rests.stored(found)
        return StoredRest(found.readings, found.expires_at, _conditions(found))

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        if not self.counts:
            return None
        try:
            client = self._line.client()
            content = measure_rest(client, run, pause)
        except MeterRefused as refusal:
            if refusal.reason not in UNREACHED:
                raise
            return None
        self._rests.looked(rest_of(unpack(content)))
        return content

    def close_run(self, run: str) -> None:
        with self._lock:
            for key in [key for key in self._own if key[0] == run]:
                self._let_go(key[2], self._own.pop(key).handle)
            for name in [name for name in self._known if name[0] == run]:
                del self._known[name]
        if os.geteuid() == 0:
            # What a meter that died could not remove.
            remove_run_cgroups(hierarchies(), run)

    def _let_go(self, client: MeterClient, handle: str) -> None:
        if self._line.is_lost(client):
            return
        try:
            client.release(handle)
        except MeterRefused as refusal:
            if refusal.reason in UNREACHED:
                self._line.lost(client)

    def _prepared(self, run: str, trial: int | None, roles: tuple[str, ...]) -> tuple[MeterClient, Prepared]:
        for last in (False, True):
            client = self._line.client()
            try:
                return client, client.prepare(run, trial, roles, driver=self._driver)
            except MeterRefused as refusal:
                if refusal.reason not in UNREACHED or last:
                    raise
                self._line.lost(client)
        raise AssertionError("unreachable")


class MeasuredTrial:
    """A `ports.TrialMeter`: one handle, one window."""

    def __init__(
        self,
        line: MeterLine,
        client: MeterClient,
        prepared: Prepared,
        *,
        roles: tuple[str, ...],
        by_kind: bool,
        rests: RestsSoFar,
        estimating: Estimating | None,
        gpu_sharing: GpuSharing = "device_total",
    ):
        self.cgroups: Mapping[str, str] = prepared.cgroups
        self._line = line
        self._client = client
        self._handle = prepared.handle
        self._roles = roles
        self._by_kind = by_kind
        self._rests = rests
        self._estimating = estimating
        self._gpu_sharing = gpu_sharing
        self._window: str | None = None
        self._closed = False
        self._exchanges: dict[int, str] = {}
        """Order -> its window, while it is under way."""
        self._lock = threading.Lock()
        self._lack: str | None = None
        """Why there are no readings; the first reason counts."""

    def open(self) -> None:
        def act() -> None:
            self._window = self._client.open(self._handle, gpu_sharing=self._gpu_sharing).window

        self._try(act)

    def close(self) -> None:
        """The first call counts: what comes after it is not the solver's."""
        window = self._window
        if window is not None and not self._closed:
            self._closed = True
            self._try(lambda: self._client.close(window))

    def began(self, order: int) -> None:
        """An exchange that gets no window of its own, beyond what one trial may have, is in the trial's all the same;
        what the model's server took in it is nobody's."""
        outer = self._window
        if outer is None or self._closed:
            return
        label = f"{EXCHANGE}/{order}"
        opened = self._quietly(lambda: self._client.open(self._handle, label, inside=outer))
        if opened is not None:
            with self._lock:
                self._exchanges[order] = opened.window

    def ended(self, order: int) -> None:
        with self._lock:
            window = self._exchanges.pop(order, None)
        if window is not None and not self._closed:
            self._quietly(lambda: self._client.close(window))

    def _quietly(self, act: Callable[[], Done]) -> Done | None:
        """What is refused of an exchange takes nothing of the trial's own window."""
        try:
            return act()
        except MeterRefused as refusal:
            if refusal.reason in UNREACHED:
                self._lack = self._lack or str(refusal)
                self._line.lost(self._client)
            return None

    def release(self, wall_seconds: float, *, at_limit: bool) -> MeteredTrial:
        released = self._try(lambda: self._client.release(self._handle))
        readings = released.readings if released is not None else None
        if released is None or readings is None or not self._closed:
            return self._without(self._lack or _NEVER_OPENED, wall_seconds, released.flags if released else ())
        try:
            found = unpack(readings)
            window = window_of(found, self._rests.idle())
        except Malformed as error:
            return self._without(f"no readings of a meter of ours: {error}", wall_seconds, released.flags)
        over = ran_on(found.header, "timeout" if at_limit else None)
        flags = tuple(sorted({*window.flags, *(("ran_on",) if over else ())}))
        if self._estimating is None:
            energy = trial_energy(window, by_kind=self._by_kind, ran_on=over)
        else:
            charged = {role: window.cpu_ns.get(role) for role in self._roles}
            energy = self._estimating.energy(wall_seconds, charged, by_kind=self._by_kind, flags=flags)
        known = any(charged is not None for charged in window.cpu_ns.values())
        return MeteredTrial(
            energy=energy,
            cpu_seconds=cpu_seconds(window),
            cpu_source="cgroup_parent" if known else None,
            # An estimate is redone from its inputs; its window is no evidence of joules.
            readings=readings if self._estimating is None else None,
            flags=flags,
        )

    def _without(self, lack: str, wall_seconds: float, flags: tuple[str, ...]) -> MeteredTrial:
        unknown = dict.fromkeys(self._roles)
        if self._estimating is None:
            zones = self._line.status["counters"]
            origins = [Grade(zone["provenance"], zone.get("claimed")) for zone in zones if zone["summed"]]
            energy = lost(lack, self._roles, by_kind=self._by_kind, origins=origins)
        else:
            energy = self._estimating.energy(wall_seconds, unknown, by_kind=self._by_kind, flags=flags)
        return MeteredTrial(energy=energy, cpu_seconds=unknown, cpu_source=None, readings=None, flags=flags)

    def _try(self, act: Callable[[], Done]) -> Done | None:
        """None where the meter did not do it: the trial goes on without."""
        if self._lack is not None and self._line.is_lost(self._client):
            return None
        try:
            return act()
        except MeterRefused as refusal:
            self._lack = self._lack or str(refusal)
            if refusal.reason in UNREACHED:
                self._line.lost(self._client)
            return None


def _boot() -> str | None:
    try:
        return boot_id(_BOOT_ID.read_text())
    except OSError:
        return None


def _conditions(calibration: Calibration) -> dict[str, str | None]:
    return {**calibration.conditions, **({"forced": calibration.forced} if calibration.forced else {})}
