"""The CPU time that a trial is charged, and whether it had the machine for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from appliance.energy.exchanges import members_of
from appliance.energy.members import CpuTimes
from appliance.energy.readings import Header

ALONE_PERCENT: Final = 2
"""Of the trial's CPU time: what others may use while it still counts as alone (energy 3.2)."""


@dataclass(frozen=True)
class Charge:
    by_role: Mapping[str, int | None]
    """Nanoseconds; None where it was never read."""
    own_ns: int
    all_ns: int
    """The trial's, others' and the system's."""
    alone: bool
    flags: tuple[str, ...]

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(role for role, charged in self.by_role.items() if charged is None)

    @property
    def read_ns(self) -> int | None:
        """Of all roles; None where one of them was not read, or there is none."""
        return None if self.unread or not self.by_role else self.own_ns


def charge_of(header: Header, cpu: CpuTimes) -> Charge:
    """`contended` where what no cgroup of ours used is over the limit; trials at the same time are only not alone."""
    unit_ns = 1000 if header.cpu_unit == "us" else 1
    used = cpu.charged
    by_role: dict[str, int | None] = {}
    own = others = 0
    for one in members_of(header):
        charged = used.get(one.id)
        if one.trial != "own":
            others += charged or 0
            continue
        own += charged or 0
        before = by_role.get(one.role)
        by_role[one.role] = before if charged is None else charged * unit_ns + (before or 0)
    system = max(0, cpu.now.machine - own - others)
    contended = bool(by_role) and system * 100 > own * ALONE_PERCENT
    return Charge(
        by_role=by_role,
        own_ns=own * unit_ns,
        all_ns=(own + others + system) * unit_ns,
        alone=not by_role or (others + system) * 100 <= own * ALONE_PERCENT,
        flags=("contended",) if contended else (),
    )
