"""Which source a run's joules come from: a pure decision over what was asked and what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.errors import MeterRefused
from appliance.meter.counters import CounterSearch
from appliance.records.words import EnergyMode

Source = Literal["wall", "curve"]


@dataclass(frozen=True)
class Choice:
    source: Source
    reason: str | None
    """Why `auto` did not take a counter; None where an estimator was asked for by name."""


def choose(mode: EnergyMode, *, watts_set: bool, counters: CounterSearch, cpu_readable: bool) -> Choice:
    """`measured` without a counter raises MeterRefused before any trial (J34, L5); nothing falls back silently."""
    if mode == "estimator":
        return Choice("wall", None)
    if mode == "estimator:curve":
        if not cpu_readable:
            raise MeterRefused(
                "estimator:curve needs the CPU time of the trial's cgroup, which cannot be read here",
                mend="use --energy estimator",
                reason="no_cpu_time",
            )
        return Choice("curve", None)
    if mode == "measured":
        raise _no_counter(counters)
    reason = counters.reason or _unread(counters)
    return Choice("wall" if watts_set or not cpu_readable else "curve", reason)


def _no_counter(counters: CounterSearch) -> MeterRefused:
    mend = "use --energy auto for a labelled estimate"
    if counters.lack == "PrivilegeRequired":
        return MeterRefused(
            f"PrivilegeRequired: {counters.reason}",
            mend="run as root, or give CAP_DAC_READ_SEARCH",
            reason="PrivilegeRequired",
        )
    return MeterRefused(f"NoCounter: {counters.reason or _unread(counters)}", mend=mend, reason="NoCounter")


def _unread(counters: CounterSearch) -> str:
    return f"no counter: this version does not read {counters.found[0]} yet"
