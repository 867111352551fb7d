"""A picture as rows of a table, as one plain line, and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from appliance.meter.faces.following import Seen
from appliance.meter.faces.naming import name_of
from appliance.meter.faces.picture import NOTHING, Amount, CgroupView, Picture

_LACK: Final = "-"


@dataclass(frozen=True)
class Row:
    name: str
    watts: str
    joules: str
    cpu: str
    """Of one CPU, in percent; empty where it is no cgroup."""
    kind: str
    """`container`, `gone`, `system`, `idle`, `total`; `beside`: a counter that is in no sum."""


def rows(seen: Seen, most: int | None = None) -> Iterator[Row]:
    """Containers by watts, the busiest first, those that are gone behind them; then system, idle, total; then what is
    counted beside the sum, in watts alone: added to it, the same joules would stand there twice.

    `most` containers, where there is no room for more: the others are one row.
    """
    picture = seen.picture
    counted = bool(picture.summed)

    def rank(view: CgroupView) -> tuple[bool, int, int, float, float, str]:
        amount = picture.of(view)
        return (not view.running, -amount.uw, -amount.uj, -view.cpu_share, -view.cpu_seconds, view.path)

    ranked = sorted(picture.cgroups, key=rank)
    shown = ranked if most is None or len(ranked) <= most else ranked[: max(0, most - 1)]
    for view in shown:
        amount = picture.of(view) if counted else None
        cpu = f"{view.cpu_share:.0%}" if view.running else ""
        yield _row(name_of(view, seen.names).shown, amount, cpu, "container" if view.running else "gone")
    rest = ranked[len(shown) :]
    if rest:
        amount = sum((picture.of(view) for view in rest), NOTHING) if counted else None
        share = sum(view.cpu_share for view in rest)
        yield _row(f"{len(rest)} more", amount, f"{share:.0%}", "gone")
    yield _row("system", picture.system if counted else None, "", "system")
    yield _row("idle", picture.idle, "", "idle")
    yield _row("total", picture.measured if counted else None, _percent(picture.usage_ratio), "total")
    for one in picture.zones:
        if not one.zone.summed:
            yield Row(f"{one.zone.key}, not summed", f"{one.measured.uw / 1e6:.2f}", "", "", "beside")


def remarks(seen: Seen, idle: str) -> Iterator[str]:
    """What a reader must know of the figures; `idle`: what is known of the idle power, in words."""
    picture = seen.picture
    if picture.summed:
        keys = ", ".join(view.zone.key for view in picture.summed)
        label = "" if picture.provenance == "hw_shunt" else f" ({picture.provenance})"
        yield f"of {keys}{label}; conservation error {picture.error_uj} uJ"
        yield idle
    else:
        yield f"no counter: CPU time only{_why_none(picture)}"
    for view in picture.zones:
        if view.shared:
            yield f"{view.zone.key} is shared: its joules stand under system"
    if picture.gaps:
        found = ", ".join(f"{count} {reason}" for reason, count in picture.gaps.items())
        yield f"gaps: {found}"


def plain_line(seen: Seen, at: str) -> str:
    """For a pipe or a file: one line a second."""
    parts = [at]
    shown = [row for row in rows(seen) if row.kind not in ("gone", "beside")]
    for row in sorted(shown, key=lambda row: ("total", "idle", "system", "container").index(row.kind)):
        cpu = f" {row.cpu} CPU" if row.cpu and row.kind == "container" else ""
        parts.append(f"{row.name} {row.watts} W {row.joules} J{cpu}")
    return "  ".join([*parts, f"error {seen.picture.error_uj} uJ"])


def json_value(seen: Seen, idle: dict[str, Any]) -> dict[str, Any]:
    """One JSON document: integers in microjoules and microwatts."""
    picture = seen.picture
    return {
        "meter": {
            "version": picture.version,
            "cpuSeconds": picture.meter_cpu_seconds,
            "windows": picture.windows,
            "gaps": dict(picture.gaps),
        },
        "lastLineSeconds": picture.seconds,
        "provenance": picture.provenance,
        "idle": idle,
        "conservationErrorUj": picture.error_uj,
        "usageRatio": picture.usage_ratio,
        "total": _amount(picture.measured) if picture.summed else None,
        "idleTotal": _amount(picture.idle),
        "system": _amount(picture.system) if picture.summed else None,
        "zones": [
            {
                "key": view.zone.key,
                "source": view.zone.source,
                "provenance": view.zone.provenance,
                "summed": view.zone.summed,
                "measured": _amount(view.measured),
                "idle": _amount(view.idle),
                "system": _amount(view.system),
                "shared": view.shared,
            }
            for view in picture.zones
        ],
        "containers": [_container(seen, view) for view in picture.cgroups],
        "absent": [{"path": one.path, "reason": one.reason, "mend": one.mend} for one in picture.absent],
    }


def _container(seen: Seen, view: CgroupView) -> dict[str, Any]:
    name = name_of(view, seen.names)
    return {
        "id": name.id,
        "name": name.shown,
        "runtime": name.runtime,
        "role": view.role,
        "run": view.run,
        "trial": view.trial,
        "path": view.path,
        "running": view.running,
        "cpuSeconds": view.cpu_seconds,
        "cpuShare": view.cpu_share,
        "total": _amount(seen.picture.of(view)) if seen.picture.summed else None,
        "zones": {key: _amount(amount) for key, amount in view.zones.items()},
    }


def _amount(amount: Amount | None) -> dict[str, int] | None:
    return None if amount is None else {"uj": amount.uj, "uw": amount.uw}


def _row(name: str, amount: Amount | None, cpu: str, kind: str) -> Row:
    if amount is None:
        return Row(name, _LACK, _LACK, cpu, kind)
    return Row(name, f"{amount.uw / 1e6:.2f}", f"{amount.uj / 1e6:.1f}", cpu, kind)


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.0%}"


def _why_none(picture: Picture) -> str:
    if not picture.absent:
        return ""
    first = picture.absent[0]
    return f" ({first.path}: {first.reason}{f'; {first.mend}' if first.mend else ''})"
