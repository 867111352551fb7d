"""Readings as the daemon writes them, of a machine that a test describes: constant power, constant CPU time.

    packed([zone()], [25.0], seconds=2.0, cpu={"solver": 0.5})

is a window of two seconds, ten samples a second, in which package-0 took 25 W and the solver half a CPU. `edit` changes
the raw numbers before they are written (a reset, a null), `events` are said before the sample of their index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from appliance.digests import sha256_hex
from appliance.energy.counter import NANOJOULES, CounterZone
from appliance.energy.readings import (
    Event,
    Header,
    ReadCgroup,
    block_line,
    event_line,
    header_line,
    pack,
    sample_line,
)
from tests.sysfs_tree import INTEL_RANGE_UJ

BOOT = sha256_hex(b"boot")
OPENED_AT = "2026-01-02T03:04:05.000Z"
PERIOD_NS = 100_000_000
RUN = "run1"
Rows = list[list[int | None]]
"""One a sample: zones, machine CPU, cgroups; raw numbers."""


def zone(key: str = "package-0", **changes: Any) -> CounterZone:
    """RAPL's by default: microjoules that wrap, at most a kilowatt, read every millisecond."""
    fields: dict[str, Any] = {
        "id": f"z-{key}",
        "key": key,
        "path": "intel-rapl:0",
        "name": key.rpartition("/")[2],
        "domain": "dram" if key.endswith("dram") else "psys" if key == "psys" else "package",
        "unit": "uj",
        "max_range": INTEL_RANGE_UJ,
        "most_uw": 1_000_000_000,
        "update_period_ns": 1_000_000,
        "shortest_window_ns": 10_000_000,
        "source": "powercap",
        "provenance": "hw_shunt",
        "summed": key != "psys",
    }
    return CounterZone(**{**fields, **changes})


def simulated(key: str = "package-0", **changes: Any) -> CounterZone:
    return zone(key, **{"provenance": "simulated", "claimed": "hw_shunt", **changes})


def cgroups(own: Sequence[str], others: Sequence[tuple[str, str | None]]) -> tuple[ReadCgroup, ...]:
    """Columns c0, c1, ... of the trial's own roles, then of the others by (role, opaque trial or None)."""
    named = [(role, "own") for role in own] + list(others)
    return tuple(ReadCgroup(id=f"c{at}", role=role, trial=trial) for at, (role, trial) in enumerate(named))


def header(zones: Sequence[CounterZone], columns: Sequence[ReadCgroup], length_ns: int, **changes: Any) -> Header:
    fields: dict[str, Any] = {
        "run": RUN,
        "trial": 0,
        "meter": "bench-appliance 0.1.0",
        "opened_at": OPENED_AT,
        "boot_id": BOOT,
        "opened_boottime_ns": str(3_600 * 10**9),
        "length_ns": length_ns,
        "open_skew_ns": 200_000,
        "close_skew_ns": 200_000,
        "period_ns": PERIOD_NS,
        "cpus": 4,
        "tick_ns": 4_000_000,
        "cpu_unit": "ns",
        "zones": tuple(zones),
        "cgroups": tuple(columns),
    }
    return Header(**{**fields, **changes})


def packed(
    zones: Sequence[CounterZone],
    watts: Sequence[float],
    *,
    seconds: float = 2.0,
    cpu: Mapping[str, float] | None = None,
    others: Mapping[tuple[str, str | None], float] | None = None,
    system: float = 0.0,
    start_uj: int = 1_000_000,
    edit: Callable[[Rows], None] | None = None,
    events: Mapping[int, Sequence[Event]] | None = None,
    **head: Any,
) -> bytes:
    """`cpu`, `others` and `system` are CPUs used; the machine's CPU time is their sum. The last sample is the close."""
    own = {"solver": 0.5} if cpu is None else dict(cpu)
    shared = dict(others or {})
    length = round(seconds * 1e9)
    period = head.get("period_ns", PERIOD_NS)
    moments = [*range(0, length, period), length]
    columns = cgroups(list(own), list(shared))
    per_ns = 1 if head.get("cpu_unit", "ns") == "ns" else 1_000
    rates = [*own.values(), *shared.values()]
    rows: Rows = []
    for moment in moments:
        raws = [_raw(one, power, moment, start_uj) for one, power in zip(zones, watts, strict=True)]
        used = [10**9 + round(rate * moment) // per_ns for rate in rates]
        rows.append([*raws, 10**12 + round((sum(rates) + system) * moment) // per_ns, *used])
    if edit is not None:
        edit(rows)
    said = events or {}
    lines = [*map(event_line, said.get(0, ())), block_line([z.id for z in zones], [c.id for c in columns], rows[0])]
    last = list(rows[0])
    for at in range(1, len(rows)):
        steps = [None if now is None else now - (before or 0) for now, before in zip(rows[at], last, strict=True)]
        last = [before if now is None else now for now, before in zip(rows[at], last, strict=True)]
        lines += [*map(event_line, said.get(at, ())), sample_line(moments[at] - moments[at - 1], steps)]
    return pack(header_line(header(zones, columns, length, **head))) + pack(b"".join(lines))


def at_rest(
    zones: Sequence[CounterZone], watts: Sequence[float], *, seconds: float = 5.0, after_ns: int = 0, **head: Any
) -> bytes:
    """A look at the machine at rest, by default an hour before the usual window; `after_ns` moves it."""
    opened = 60 * 10**9 + after_ns
    fields = {"trial": None, "opened_boottime_ns": str(opened), **head}
    return packed(zones, watts, seconds=seconds, cpu={}, others={("meter", None): 0.01}, **fields)


def _raw(of: CounterZone, watts: float, moment: int, start_uj: int) -> int:
    nanojoules = start_uj * 1_000 + round(watts * moment)
    if of.unit == "mw":
        return round(watts * 1_000)
    count = nanojoules // NANOJOULES[of.unit]
    return count if of.max_range is None else count % (of.max_range + 1)
