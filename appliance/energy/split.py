"""The law of conservation, in integers: measured = idle + system + the members, every sample, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_NS: Final = 10**9
_EXCESS_PERCENT: Final = 2


@dataclass(frozen=True)
class Split:
    """Microjoules of one zone over one sample; `idle + system + sum(members)` is what was measured."""

    idle_uj: int
    system_uj: int
    members_uj: tuple[int, ...]
    """In the order of the weights."""
    flags: tuple[str, ...]
    """`below_idle`, `negative_cpu`, `cpu_excess`."""


def apportion(total: int, weights: Sequence[int]) -> list[int] | None:
    """`total` over non-negative weights by largest remainder; ties go to the earlier. None where all weights are 0."""
    whole = sum(weights)
    if whole <= 0:
        return None
    shares = [total * weight // whole for weight in weights]
    left = total - sum(shares)
    by_remainder = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % whole), at))
    for at in by_remainder[:left]:
        shares[at] += 1
    return shares


def split(measured_uj: int, idle_uw: int, dt_ns: int, members_cpu_us: Sequence[int], system_cpu_us: int) -> Split:
    """Idle first (never more than there is), then what is left by CPU time; without any CPU time it is the system's.

    `system_cpu_us` is the machine's busy time less the members'; it may be negative (two clocks) and counts as 0 then.
    Members come in the order of their stable ids, so that equal weights fall alike everywhere.
    """
    idle = min(measured_uj, idle_uw * dt_ns // _NS)
    dynamic = measured_uj - idle
    weights = [max(0, cpu) for cpu in members_cpu_us]
    shares = apportion(dynamic, [*weights, max(0, system_cpu_us)])
    flags = []
    if measured_uj < idle_uw * dt_ns // _NS:
        flags.append("below_idle")
    if min(members_cpu_us, default=0) < 0:
        flags.append("negative_cpu")
    if -system_cpu_us * 100 > sum(weights) * _EXCESS_PERCENT:
        flags.append("cpu_excess")
    if shares is None:
        return Split(idle, dynamic, (0,) * len(weights), tuple(flags))
    return Split(idle, shares[-1], tuple(shares[:-1]), tuple(flags))
