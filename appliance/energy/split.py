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
    products = [total * weight for weight in weights]
    shares = [product // whole for product in products]
    left = total - sum(shares)
    if left:
        remainders = [product % whole for product in products]
        if left == 1:
            shares[remainders.index(max(remainders))] += 1
            return shares
        # Sorting keeps the order of equals, in reverse too.
        for at in sorted(range(len(shares)), key=remainders.__getitem__, reverse=True)[:left]:
            shares[at] += 1
    return shares


def split(measured_uj: int, idle_uw: int, dt_ns: int, members_cpu_us: Sequence[int], system_cpu_us: int) -> Split:
    """Idle first (never more than there is), then what is left by CPU time; without any CPU time it is the system's.

    `system_cpu_us` is the machine's busy time less the members'; it may be negative (two clocks) and counts as 0 then.
    Members come in the order of their stable ids, so that equal weights fall alike everywhere.
    """
    rest_uj = idle_uw * dt_ns // _NS
    idle, system, members = shares_of(measured_uj, rest_uj, members_cpu_us, system_cpu_us)
    flags = []
    if measured_uj < rest_uj:
        flags.append("below_idle")
    if min(members_cpu_us, default=0) < 0:
        flags.append("negative_cpu")
    if -system_cpu_us * 100 > sum(max(0, cpu) for cpu in members_cpu_us) * _EXCESS_PERCENT:
        flags.append("cpu_excess")
    return Split(idle, system, tuple(members), tuple(flags))


def shares_of(
    measured_uj: int, rest_uj: int, members_cpu_us: Sequence[int], system_cpu_us: int
) -> tuple[int, int, Sequence[int]]:
    """(idle, system, members): `split` without its flags, for those who split a window's every sample. `rest_uj`: what
    idle takes, if there is as much."""
    idle = min(measured_uj, rest_uj)
    dynamic = measured_uj - idle
    weights = [cpu if cpu > 0 else 0 for cpu in members_cpu_us]
    weights.append(system_cpu_us if system_cpu_us > 0 else 0)
    shares = apportion(dynamic, weights)
    if shares is None:
        return idle, dynamic, (0,) * len(members_cpu_us)
    return idle, shares.pop(), shares
