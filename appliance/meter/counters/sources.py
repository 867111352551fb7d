"""The counters that a daemon is started with, by the words of its command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from appliance.energy.counter import Counter
from appliance.errors import MeterRefused
from appliance.meter.counters.nvml import NvmlCounter
from appliance.meter.counters.powercap import PowercapCounter
from appliance.meter.counters.powercap_files import POWERCAP

CPU_BACKENDS: Final = ("powercap", "pyrapl")


def open_counters(
    *,
    powercap: Path = POWERCAP,
    cpu_backend: str = "powercap",
    plugins: Sequence[str] = (),
    nvml: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Counter, ...]:
    """The processor's, the boards', then one for each plug-in by entry point (rows D3, D4, J47).

    Raises MeterRefused for a backend or plug-in that was asked for by name and has no zone, with its reason.
    """
    if cpu_backend not in CPU_BACKENDS:
        raise MeterRefused(
            f"no CPU backend is called {cpu_backend!r}", mend=f"known: {', '.join(CPU_BACKENDS)}", reason="no_counter"
        )
    opened: list[Counter] = []
    try:
        opened.append(_processor(cpu_backend, powercap, say))
        if nvml:
            opened.append(NvmlCounter(say=say))
        for name in plugins:
            opened.append(_plugin(name, alone=not any(zone.summed for one in opened for zone in one.zones()), say=say))
    except MeterRefused:
        for one in opened:
            one.close()
        raise
    return tuple(opened)


def _processor(backend: str, powercap: Path, say: Callable[[str], None]) -> Counter:
    if backend == "pyrapl":
        from appliance.meter.counters.child_counter import ChildCounter

        return _with_zones(ChildCounter.of_pyrapl(say=say), f"--cpu-backend {backend}")
    if sys.platform == "darwin":
        from appliance.meter.counters.powermetrics import PowermetricsCounter

        return PowermetricsCounter(say=say)
    return PowercapCounter(powercap, say=say)


def _plugin(name: str, *, alone: bool, say: Callable[[str], None]) -> Counter:
    from appliance.meter.counters.child_counter import ChildCounter

    return _with_zones(ChildCounter.of_plugin(name, alone=alone, say=say), f"--counter {name}")


def _with_zones(counter: Counter, asked: str) -> Counter:
    if counter.zones():
        return counter
    absent = next(iter(counter.absent()), None)
    counter.close()
    raise MeterRefused(
        absent.reason if absent else "it has no zone",
        where=asked,
        mend=absent.mend if absent and absent.mend else "leave it away, or mend the counter",
        reason="no_counter",
    )
