"""How far a window's joules may be off: a budget of named terms, in integers, expanded with k = 2.

Each term is a standard uncertainty (energy 3.4): rectangular over its width, both edges of a window in quadrature.

    resolution     q / sqrt(6)                     two readings of a counter whose count is worth q
    edges          P tau / sqrt(6)                 it ticks every tau, at an unknown phase, at both ends
    skew           P (t1 - t0) / sqrt(12) an edge  how long the reading of an edge took
    sampled_power  5 % of the energy               power in place of a counter: the board's own gain error
    idle           T sqrt(s^2/n + drift^2/12)      the power at rest, of the net alone
    cpu_staleness  D tick b / (W sqrt(6))          CPU time lags by a tick on each of b busy CPUs, of the net alone
    utilisation    D / sqrt(12)                    a share of a board by SM utilisation: anything from 0 to D

What the counter itself is off by (type B) nobody here knows: the reference is the vendor's counter, not traceable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final, Literal

from appliance.energy.rest import ZoneRest, deviation

REFERENCE: Final = "vendor counter, not traceable"
COVERAGE: Final = 2
EDGE_PERIODS: Final = 41
"""Below as many update periods the edges alone are over 1 % (k = 1): 41 ms of RAPL, 4.1 s of NVML (row G7)."""
_NS: Final = 10**9
_POWER_PERCENT: Final = 5
TermName = Literal["resolution", "edges", "skew", "sampled_power", "idle", "cpu_staleness", "utilisation"]
# One reading of an edge and one clock of CPU time serve all zones: what these are off by, all are together.
_COMMON: Final[frozenset[TermName]] = frozenset({"skew", "cpu_staleness"})
_OF_NET: Final[frozenset[TermName]] = frozenset({"idle", "cpu_staleness", "utilisation"})


@dataclass(frozen=True)
class Term:
    name: TermName
    standard_nj: int
    """Standard uncertainty (k = 1), nanojoules."""

    @property
    def of_net(self) -> bool:
        """Of the trial's share alone; gross does not have it."""
        return self.name in _OF_NET


@dataclass(frozen=True)
class Budget:
    terms: tuple[Term, ...]

    @property
    def gross_uj(self) -> int:
        """Expanded, k = 2, rounded up."""
        return _expanded(term.standard_nj for term in self.terms if not term.of_net)

    @property
    def net_uj(self) -> int:
        return _expanded(term.standard_nj for term in self.terms)


@dataclass(frozen=True)
class Reading:
    """What the budget of one zone is made from."""

    unit_nj: int
    update_period_ns: int
    sampled: bool
    gross_uj: int
    wall_ns: int
    skews_ns: tuple[int, int]


@dataclass(frozen=True)
class Sharing:
    """What the trial's share adds: energy above rest, and the CPU time by which it was shared out."""

    dynamic_uj: int
    all_cpu_ns: int
    own_cpu_ns: int
    tick_ns: int
    cpus: int


def measured(reading: Reading) -> tuple[Term, ...]:
    """Terms of gross. A window of no length has the resolution alone."""
    energy_nj = reading.gross_uj * 1000
    wall_ns = max(1, reading.wall_ns)
    open_ns, close_ns = reading.skews_ns
    terms = [
        Term("resolution", isqrt(reading.unit_nj**2 // 6)),
        Term("edges", isqrt((energy_nj * reading.update_period_ns // wall_ns) ** 2 // 6)),
        Term("skew", isqrt(energy_nj**2 * (open_ns**2 + close_ns**2) // (12 * wall_ns**2))),
    ]
    if reading.sampled:
        terms.append(Term("sampled_power", energy_nj * _POWER_PERCENT // 100))
    return tuple(terms)


def of_idle(rest: ZoneRest, drift_uw: int, wall_ns: int) -> Term:
    """`drift_uw`: between the looks before and after, or over the only one."""
    # Microwatts by nanoseconds are femtojoules: a million of them are a nanojoule.
    variance = rest.deviation_uw**2 * 12 + drift_uw**2 * max(1, rest.bins)
    return Term("idle", wall_ns * isqrt(variance * _NS**2 // (12 * max(1, rest.bins))) // _NS // 10**6)


def of_sharing(sharing: Sharing, wall_ns: int) -> Term:
    busy = min(max(1, sharing.cpus), max(1, -(-sharing.own_cpu_ns // max(1, wall_ns))))
    dynamic_nj = sharing.dynamic_uj * 1000
    if sharing.all_cpu_ns <= 0:
        return Term("cpu_staleness", 0)
    stale = isqrt((dynamic_nj * sharing.tick_ns * busy // sharing.all_cpu_ns) ** 2 // 6)
    return Term("cpu_staleness", min(dynamic_nj, stale))


def of_utilisation(dynamic_uj: int) -> Term:
    """Busy SMs say nothing of the power they took: the share may be any part of what was not idle."""
    return Term("utilisation", isqrt((dynamic_uj * 1000) ** 2 // 12))


def together(budgets: Sequence[Budget]) -> Budget:
    """Of a sum of zones: what is common to all of them adds up, the rest in quadrature."""
    by_name: dict[TermName, list[int]] = {}
    for budget in budgets:
        for term in budget.terms:
            by_name.setdefault(term.name, []).append(term.standard_nj)
    return Budget(
        tuple(
            Term(name, sum(several) if name in _COMMON else isqrt(sum(one**2 for one in several)))
            for name, several in by_name.items()
        )
    )


def edge_error(wall_ns: int, update_period_ns: int) -> bool:
    """The edges alone are over 1 % at k = 1 (row G7)."""
    return wall_ns < EDGE_PERIODS * update_period_ns


def detection_limit_uj(rest: ZoneRest, wall_ns: int) -> int | None:
    """LOD(T) = 3 x the standard deviation of the energy at rest in pieces of length T.

    Pieces are whole seconds, T rounded up; where fewer than three of them lie in the record, the longest of which three
    do is taken and scaled by the time, as a drift grows. None: too short a record.
    """
    bins = rest.bins_uj
    wanted = max(1, -(-wall_ns // _NS))
    length = min(wanted, len(bins) // 3)
    if length < 1:
        return None
    pieces = [sum(bins[at : at + length]) for at in range(0, len(bins) - length + 1, length)]
    return -(-3 * deviation(pieces) * wanted // length)


def _expanded(standards_nj: Iterable[int]) -> int:
    return -(-COVERAGE * isqrt(sum(one**2 for one in standards_nj)) // 1000)
