"""CPU time of those who share a zone's energy, from the window's opening on."""

from __future__ import annotations

from typing import NamedTuple

from appliance.energy.exchanges import Exchanges, members_of, servers_of, within
from appliance.energy.readings import Header, Sample


class CpuMoment(NamedTuple):
    """CPU time since the window opened, in the header's unit."""

    machine: int
    ids: tuple[str, ...]
    """Columns that were there, sorted."""
    used: tuple[int, ...]


class CpuShare(NamedTuple):
    """Between two moments."""

    ids: tuple[str, ...]
    members: tuple[int, ...]
    """None of them negative: what a cgroup was charged never falls."""
    machine: int
    whole: int
    """Of the members together."""
    own_at: tuple[int, ...]
    """Where in `ids` the trial's own stand."""
    own: int
    """Of these together."""


class CpuTimes:
    """A cgroup joins with its first reading as a baseline; a decrease is a new baseline, never a negative time.

    What a cgroup used while it could not be read is in its next reading (C1, T2); what goes away keeps what it had.
    """

    def __init__(self, header: Header):
        self.flags: set[str] = set()
        self.now = CpuMoment(0, (), ())
        self.charged: dict[str, int] = {}
        """Of every cgroup that was ever read, by id."""
        self._reset = "v1_reset" if header.cpu_unit == "ns" else "negative_cpu"
        self._machine: int | None = None
        self._last: dict[str, int] = {}
        self._order: tuple[str, ...] = ()
        """Of the columns, as the last sample had them."""
        self._columns: tuple[str, ...] = ()
        self._share: tuple[CpuMoment, CpuMoment, CpuShare] | None = None
        self._own = frozenset(one.id for one in members_of(header) if one.trial == "own")
        self._servers = servers_of(header)
        self._exchanges = Exchanges(header.inner)
        self._at_ns = 0
        self._own_at: tuple[tuple[str, ...], tuple[int, ...]] = ((), ())
        """The last columns asked for, and where the trial's own stand among them."""

    def advance(self, sample: Sample) -> None:
        last, charged = self._last, self.charged
        had = {one: charged.get(one, 0) for one in self._servers} if self._servers else {}
        for one, raw in sample.cgroups.items():
            if raw is None:
                continue
            before = last.get(one)
            if before is None:
                charged[one] = 0
            elif raw >= before:
                charged[one] += raw - before
            else:
                self.flags.add(self._reset)
            last[one] = raw
        if had:
            self._put_within(had, sample.at_ns)
        machine = self.now.machine
        if sample.machine is not None:
            # The machine's counter does not run backwards; where it was set back, nothing is known of the step.
            machine += max(0, sample.machine - (sample.machine if self._machine is None else self._machine))
            self._machine = sample.machine
        order = tuple(sample.cgroups)
        if order != self._order:
            servers = [within(one) for one in order if one in self._servers]
            self._order, self._columns = order, tuple(sorted([*order, *servers]))
        self.now = CpuMoment(machine, self._columns, tuple([charged.get(one, 0) for one in self._columns]))

    def _put_within(self, had: dict[str, int], at_ns: int) -> None:
        """What the run's model server used in this step is the trial's own where one of its exchanges was in flight."""
        holds = self._exchanges.hold(self._at_ns, at_ns)
        self._at_ns = at_ns
        for server, before in had.items():
            if server not in self.charged:
                continue
            own = within(server)
            step = self.charged[server] - before
            self.charged[own] = self.charged.get(own, 0) + (step if holds else 0)
            self.charged[server] = before if holds else self.charged[server]

    def since(self, before: CpuMoment) -> CpuShare:
        """From `before` till now; those who joined in between began at 0."""
        now = self.now
        if self._share is not None and self._share[0] is before and self._share[1] is now:
            return self._share[2]
        if before.ids == now.ids:
            ids = now.ids
            members = tuple([used - earlier for used, earlier in zip(now.used, before.used, strict=True)])
        else:
            ids, had = tuple(sorted({*now.ids, *before.ids})), dict(zip(before.ids, before.used, strict=True))
            members = tuple([self.charged.get(one, 0) - had.get(one, 0) for one in ids])
        share = self._shared(ids, members, now.machine - before.machine)
        self._share = (before, now, share)
        return share

    def whole(self) -> CpuShare:
        """Of the window so far, also of those who came and went within it."""
        ids = tuple(sorted(self.charged))
        return self._shared(ids, tuple([self.charged[one] for one in ids]), self.now.machine)

    def _shared(self, ids: tuple[str, ...], members: tuple[int, ...], machine: int) -> CpuShare:
        if ids != self._own_at[0]:
            self._own_at = (ids, tuple(at for at, one in enumerate(ids) if one in self._own))
        own_at = self._own_at[1]
        return CpuShare(ids, members, machine, sum(members), own_at, sum([members[at] for at in own_at]))
