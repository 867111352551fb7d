"""Which source a run's joules come from: a pure decision over what was asked and what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance import mends
from appliance.errors import MeterRefused
from appliance.meter.counters.search import CounterSearch
from appliance.records.words import EnergyMode

Estimator = Literal["wall", "curve"]
Source = Literal["counters"] | Estimator


@dataclass(frozen=True)
class Choice:
    source: Source
    reason: str | None
    """Why `auto` did not take a counter; None where it did, or an estimator was asked for by name."""


def choose(
    mode: EnergyMode, *, watts_set: bool, counters: CounterSearch, cpu_readable: bool, began_with_model: bool = False
) -> Choice:
    """`measured` without a counter raises MeterRefused before any trial (J34, L5); nothing falls back silently.

    `began_with_model`: the run that goes on has figures of a model already; `auto` then stays with it.
    """
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
    if counters.found and not (mode == "auto" and began_with_model):
        return Choice("counters", None)
    if mode == "measured":
        raise _no_counter(counters)
    reason = "the run began without a counter" if counters.found else counters.reason
    return Choice("wall" if watts_set or not cpu_readable else "curve", reason)


def refuse_other_source(choice: Choice, began_with: Literal["counters", "model"] | None) -> None:
    """A record's joules have one source: a run that began with counters does not end with a model (L4)."""
    if began_with != "counters" or choice.source == "counters":
        return
    if choice.reason is None:
        words, mend = "a model is asked for", "leave out --energy, or start a new run"
    else:
        words, mend = f"none can be read now: {choice.reason}", "start the meter again, or start a new run"
    raise MeterRefused(f"the run began with counters, and {words}", mend=mend, reason="source_changed")


def _no_counter(counters: CounterSearch) -> MeterRefused:
    if counters.lack == "PrivilegeRequired":
        return MeterRefused(
            f"PrivilegeRequired: {counters.reason}",
            mend=counters.mend or f"run as root, or start the meter: {mends.start_meter()}",
            reason="PrivilegeRequired",
        )
    return MeterRefused(
        f"NoCounter: {counters.reason}",
        mend=counters.mend or "use --energy auto for a labelled estimate",
        reason="NoCounter",
    )
