"""The joules of one window, recomputed from its readings: what a record states, and what a verifier redoes.

One pass over the samples, in which each zone is split as it comes, or at the end where its counter is slow (tracks);
then the zones are judged against one another (judging), and those that may be are summed (totals).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from appliance.energy import floors
from appliance.energy.charge import charge_of
from appliance.energy.counters import safe_period_ns
from appliance.energy.exchanges import members_of
from appliance.energy.figures import InnerEnergy, Window, ZoneEnergy
from appliance.energy.idle import Idle, Line, Unfit
from appliance.energy.inner import InnerBook
from appliance.energy.judging import Dies, Judged, judge
from appliance.energy.members import CpuTimes
from appliance.energy.occupancy import Occupancy
from appliance.energy.readings import Header, Readings, Sample
from appliance.energy.series import scale_of
from appliance.energy.totals import energy_of, sum_of
from appliance.energy.tracks import Track
from appliance.energy.utilised import split_by_utilisation

__all__ = ["InnerEnergy", "Window", "ZoneEnergy", "window_of"]

# How long a sample without the machine's CPU time is merged with the next, in periods.
_PATIENCE_PERIODS: Final = 10


def window_of(readings: Readings, idle: Idle | None) -> Window:
    """Raises `readings.Malformed` for readings that are none of ours. `idle` None: nobody measured it."""
    header = readings.header
    passed = _Pass(header, idle)
    for sample in readings.samples():
        passed.advance(sample)
    passed.end()
    charge = charge_of(header, passed.cpu)
    judged = judge(passed.tracks, passed.gpus, passed.dies)
    zones = tuple(energy_of(one, header, charge, passed.gpus) for one in judged)
    total = sum_of([(zone, one) for zone, one in zip(zones, judged, strict=True) if zone.summed])
    return Window(
        wall_ns=header.length_ns,
        cpu_ns=charge.by_role,
        zones=zones,
        total=total,
        inner=tuple(_inner(header, passed, judged, total)),
        samples=max(0, passed.moments - 2),
        below_floor=total.below_floor if total else floors.below(floors.NONE, header.length_ns, charge.read_ns),
        flags=tuple(sorted({*header.flags, *passed.flags, *passed.cpu.flags, *charge.flags})),
    )


class _Pass:
    """What one pass over the samples keeps."""

    def __init__(self, header: Header, idle: Idle | None):
        self.header = header
        self.inner = InnerBook(header.inner)
        self.tracks = [
            Track(
                zone, header, _idle_of(idle, zone.key, header), self.inner, safe_period_ns(scale_of(zone), zone.most_uw)
            )
            for zone in header.zones
        ]
        self._by_id = {track.zone.id: track for track in self.tracks}
        self.dies = Dies(self.tracks)
        self.gpus = Occupancy({one.id: one.trial for one in header.cgroups})
        self.cpu = CpuTimes(header)
        self.flags: set[str] = set()
        self.moments = 0
        self._own = [one.id for one in members_of(header) if one.trial == "own"]
        self._cpus = header.cpus
        self._unit_ns = 1000 if header.cpu_unit == "us" else 1
        self._at_ns = -1
        self._done_ns = -1
        self._own_used = 0
        self._held: Sample | None = None
        self._late = self._blind = False
        self._seen = False
        """There was an event: before it nobody was on any board."""

    def advance(self, sample: Sample) -> None:
        if sample.at_ns != self._at_ns:
            self.moments += 1
            self._at_ns = sample.at_ns
        for event in sample.events:
            if event.kind == "suspend":
                self.flags.add("suspended")
            elif event.kind == "cpus":
                self.flags.add("cpus_changed")
                self._cpus = max(1, event.number or self._cpus)
            elif event.kind == "late":
                self.flags.add("late")
                self._late = True
            elif event.kind == "gap" and event.subject in self._by_id:
                self._by_id[event.subject].error = event.word
            elif event.kind == "zone_gone":
                self.flags.add("zone_gone")
        if sample.events or self._seen:
            self._seen = True
            self.gpus.advance(sample.events)
        waited_ns = sample.at_ns - self._done_ns
        if sample.machine is None and self._done_ns >= 0 and waited_ns <= _PATIENCE_PERIODS * self.header.period_ns:
            self._held = sample
            return
        self._take(sample)

    def end(self) -> None:
        if self._held is not None and self._held.at_ns > self._done_ns:
            self._take(self._held)
        for track in self.tracks:
            if "suspended" in self.flags:
                track.break_off("suspended")
            track.end(self._at_ns, self.cpu, self.gpus)
            track.utilised = split_by_utilisation(track, self.header, self.gpus)

    def _take(self, sample: Sample) -> None:
        cpu, at_ns, by_id = self.cpu, sample.at_ns, self._by_id
        cpu.advance(sample)
        self.dies.advance(sample)
        # At the opening too: there is no CPU time of the machine since then, and so no share of it.
        blind = self._blind = self._blind or sample.machine is None
        if self._late:
            for one in sample.zones:
                by_id[one].check_late(at_ns)
        for one, raw in sample.zones.items():
            by_id[one].advance(raw, at_ns, cpu, self._cpus, self.gpus, blind=blind)
        self._book_cpu(at_ns)
        self._held, self._late, self._done_ns = None, False, at_ns

    def _book_cpu(self, at_ns: int) -> None:
        if self.header.inner and at_ns > self._done_ns >= 0:
            used = sum(self.cpu.charged.get(one, 0) for one in self._own)
            self.inner.book(self.inner.covering(self._done_ns, at_ns), "cpu", used - self._own_used)
            self._own_used = used


def _idle_of(idle: Idle | None, key: str, header: Header) -> Line | Unfit:
    if idle is None:
        return Unfit("no idle power was measured")
    return idle.line(key, header.boot_id, int(header.opened_boottime_ns) + header.length_ns // 2)


def _inner(header: Header, passed: _Pass, judged: Sequence[Judged], total: ZoneEnergy | None) -> Iterator[InnerEnergy]:
    """A part has no net where a summed counter is slow.

    Split by itself, each part would take its own idle and share by its own CPU time: parts could make more than the
    whole, which is split once. Its gross is what was counted between its edges.
    """
    if not header.inner:
        return
    tracks = [one.track for one in judged if one.summed]
    floor = floors.worst([floors.NONE, *(floors.of_zone(track.zone) for track in tracks)])
    missing = "no counter in this window" if total is None else total.missing
    if missing is None and any(track.slow for track in tracks):
        missing = "the counter is too slow for a part"
    if missing is None and any(track.utilised for track in tracks):
        missing = "a shared board is shared out over the whole window only"
    unit_ns = 1000 if header.cpu_unit == "us" else 1
    summed = [one.track.zone.id for one in judged if one.summed]
    gross, own = (
        [sum(several) for several in zip(*(passed.inner.shares(f"{what} {one}") for one in summed), strict=True)]
        for what in ("gross", "own")
    )
    cpu = passed.inner.shares("cpu")
    for at, window in enumerate(header.inner):
        no_gross = total is None or total.gross_uj is None
        yield InnerEnergy(
            label=window.label,
            net_uj=None if missing else own[at],
            gross_uj=None if no_gross else gross[at],
            below_floor=floors.below(floor, window.closed_ns - window.opened_ns, cpu[at] * unit_ns),
            missing=missing,
        )
