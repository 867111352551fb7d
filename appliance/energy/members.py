"""CPU time of those who share a zone's energy, from the window's opening on."""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.energy.readings import Header, Sample


@dataclass(frozen=True, slots=True)
class CpuMoment:
    """CPU time since the window opened, in the header's unit; `used` of the columns that were there, in order of id."""

    machine: int
    used: dict[str, int] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CpuShare:
    """Between two moments."""

    ids: tuple[str, ...]
    members: tuple[int, ...]
    machine: int
    whole: int
    """Of the members together."""


class CpuTimes:
    """A cgroup joins with its first reading as a baseline; a decrease is a new baseline, never a negative time.

    What a cgroup used while it could not be read is in its next reading (C1, T2); what goes away keeps what it had.
    """

    def __init__(self, header: Header):
        self.flags: set[str] = set()
        self.now = CpuMoment(0, {})
        self.charged: dict[str, int] = {}
        """Of every cgroup that was ever read, by id."""
        self._reset = "v1_reset" if header.cpu_unit == "ns" else "negative_cpu"
        self._machine: int | None = None
        self._last: dict[str, int] = {}
        self._columns: tuple[str, ...] = ()
        self._share: tuple[CpuMoment, CpuMoment, CpuShare] | None = None

    def advance(self, sample: Sample) -> None:
        last, charged = self._last, self.charged
        for one, raw in sample.cgroups.items():
            if raw is None:
                continue
            step = raw - last.get(one, raw)
            if step < 0:
                self.flags.add(self._reset)
                step = 0
            charged[one] = charged.get(one, 0) + step
            last[one] = raw
        machine = self.now.machine
        if sample.machine is not None:
            # The machine's counter does not run backwards; where it was set back, nothing is known of the step.
            machine += max(0, sample.machine - (sample.machine if self._machine is None else self._machine))
            self._machine = sample.machine
        if sample.cgroups.keys() != self.now.used.keys():
            self._columns = tuple(sorted(sample.cgroups))
        self.now = CpuMoment(machine, {one: charged.get(one, 0) for one in self._columns})

    def since(self, before: CpuMoment) -> CpuShare:
        """From `before` till now; those who joined in between began at 0."""
        if self._share is not None and self._share[0] is before and self._share[1] is self.now:
            return self._share[2]
        earlier, now = before.used, self.now.used
        ids = self._columns if now.keys() == earlier.keys() else tuple(sorted({*now, *earlier}))
        members = tuple([self.charged.get(one, 0) - earlier.get(one, 0) for one in ids])
        share = CpuShare(ids, members, self.now.machine - before.machine, sum(members))
        self._share = (before, self.now, share)
        return share

    def whole(self) -> CpuShare:
        """Of the window so far, also of those who came and went within it."""
        ids = tuple(sorted(self.charged))
        members = tuple([self.charged[one] for one in ids])
        return CpuShare(ids, members, self.now.machine, sum(members))
