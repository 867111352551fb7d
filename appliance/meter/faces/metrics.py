"""A picture as Prometheus metrics: Kepler's names and labels for what it has too, ours for the rest. Pure.

Kepler 0.10 and newer sums the zones of one name over all sockets: `zone` is a domain here as well (`package`, `dram`),
and `path` names what was summed. Joules are counters since we began to watch, as any exporter's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from appliance.meter.faces.following import Seen
from appliance.meter.faces.naming import name_of
from appliance.meter.faces.picture import NOTHING, Amount, CgroupView, ZoneView

_UJ: Final = 1e6


@dataclass
class Metric:
    """One family; a counter's name ends with `_total`."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...]
    samples: list[tuple[tuple[str, ...], float]] = field(default_factory=list)


def metrics(seen: Seen | None, node: str) -> Iterator[Metric]:
    """`seen` None: no daemon answers at present; then only that is told."""
    up = Metric("appliance_meter_up", "gauge", "Whether the meter's daemon answers", ("node_name",))
    up.samples.append(((node,), 0.0 if seen is None else 1.0))
    yield up
    if seen is None:
        return
    cpu = [view for view in seen.picture.summed if view.zone.domain not in ("gpu", "module")]
    gpu = [view for view in seen.picture.zones if view.zone.domain in ("gpu", "module")]
    yield from _node("kepler_node_cpu", "cpu", cpu, node)
    yield from _usage(seen, node)
    yield from _containers("kepler_container_cpu", "cpu", seen, cpu, node)
    if gpu:
        yield from _node("appliance_node_gpu", "gpu", gpu, node)
        yield from _containers("appliance_container_gpu", "gpu", seen, gpu, node)
    yield from _of_the_meter(seen, node)


def _node(prefix: str, device: str, views: list[ZoneView], node: str) -> Iterator[Metric]:
    """All, idle and active; idle and active only of zones whose idle power is known: a lack is no zero."""
    labels = ("zone", "path", "node_name")

    def family(word: str, of: Callable[[ZoneView], Amount | None]) -> Iterator[Metric]:
        state = f" in {word} state" if word else ""
        name = f"{prefix}_{word}_" if word else f"{prefix}_"
        joules = Metric(
            f"{name}joules_total", "counter", f"Energy consumption of {device}{state} at node level in joules", labels
        )
        watts = Metric(f"{name}watts", "gauge", f"Power consumption of {device}{state} at node level in watts", labels)
        for (zone, path), several in _by_domain(views).items():
            amounts = [of(view) for view in several]
            known = [amount for amount in amounts if amount is not None]
            if len(known) == len(amounts):
                whole = sum(known, NOTHING)
                joules.samples.append(((zone, path, node), whole.uj / _UJ))
                watts.samples.append(((zone, path, node), whole.uw / _UJ))
        yield joules
        yield watts

    yield from family("", lambda view: view.measured)
    yield from family("idle", lambda view: view.idle)
    yield from family("active", _active)


def _active(view: ZoneView) -> Amount | None:
    if view.idle is None:
        return None
    return Amount(view.measured.uj - view.idle.uj, view.measured.uw - view.idle.uw)


def _usage(seen: Seen, node: str) -> Iterator[Metric]:
    usage = Metric("kepler_node_cpu_usage_ratio", "gauge", "CPU usage ratio of the node, 0 to 1", ("node_name",))
    if seen.picture.usage_ratio is not None:
        usage.samples.append(((node,), seen.picture.usage_ratio))
    yield usage


def _containers(prefix: str, device: str, seen: Seen, views: list[ZoneView], node: str) -> Iterator[Metric]:
    labels = ("container_id", "container_name", "runtime", "state", "zone", "pod_id", "node_name")
    words = f"of {device} at container level in"
    joules = Metric(f"{prefix}_joules_total", "counter", f"Energy consumption {words} joules", labels)
    watts = Metric(f"{prefix}_watts", "gauge", f"Power consumption {words} watts", labels)
    # Two cgroups of one container (a restart under another parent) are one line to whoever asks.
    summed: dict[tuple[str, ...], Amount] = defaultdict(lambda: NOTHING)
    for cgroup in seen.picture.cgroups:
        for (zone, _), several in _by_domain(views).items():
            values = _labelled(cgroup, seen, zone, node)
            summed[values] += sum((cgroup.zones.get(view.zone.key, NOTHING) for view in several), NOTHING)
    for values, amount in summed.items():
        joules.samples.append((values, amount.uj / _UJ))
        watts.samples.append((values, amount.uw / _UJ))
    yield joules
    yield watts


def _labelled(cgroup: CgroupView, seen: Seen, zone: str, node: str) -> tuple[str, ...]:
    name = name_of(cgroup, seen.names)
    state = "running" if cgroup.running else "terminated"
    return (name.id, name.shown, name.runtime, state, zone, "", node)


def _of_the_meter(seen: Seen, node: str) -> Iterator[Metric]:
    picture = seen.picture
    zone = ("zone", "path", "node_name")
    system = Metric(
        "appliance_node_system_joules_total", "counter", "Energy of what ran in no container, in joules", zone
    )
    watts = Metric("appliance_node_system_watts", "gauge", "Power of what ran in no container, in watts", zone)
    for (domain, path), several in _by_domain(list(picture.summed)).items():
        whole = sum((view.system for view in several), NOTHING)
        system.samples.append(((domain, path, node), whole.uj / _UJ))
        watts.samples.append(((domain, path, node), whole.uw / _UJ))
    yield system
    yield watts
    cpu = Metric(
        "appliance_container_cpu_seconds_total",
        "counter",
        "CPU time of a container in seconds",
        ("container_id", "container_name", "runtime", "state", "node_name"),
    )
    seconds: dict[tuple[str, ...], float] = defaultdict(float)
    for cgroup in picture.cgroups:
        name = name_of(cgroup, seen.names)
        state = "running" if cgroup.running else "terminated"
        seconds[name.id, name.shown, name.runtime, state, node] += cgroup.cpu_seconds
    cpu.samples.extend(seconds.items())
    yield cpu
    error = Metric(
        "appliance_meter_conservation_error_microjoules",
        "gauge",
        "Measured less idle, system and containers; 0, or the meter is wrong",
        ("node_name",),
    )
    error.samples.append(((node,), float(picture.error_uj)))
    yield error
    gaps = Metric(
        "appliance_meter_gaps_total", "counter", "Readings that gave no number, by reason", ("reason", "node_name")
    )
    gaps.samples.extend(((reason, node), float(count)) for reason, count in picture.gaps.items())
    yield gaps
    own = Metric("appliance_meter_cpu_seconds_total", "counter", "CPU time of the meter itself", ("node_name",))
    own.samples.append(((node,), picture.meter_cpu_seconds))
    yield own
    windows = Metric("appliance_meter_windows", "gauge", "Windows that are open", ("node_name",))
    windows.samples.append(((node,), float(picture.windows)))
    yield windows
    zones = Metric(
        "appliance_meter_zone_info",
        "gauge",
        "Where each zone's joules come from; always 1",
        ("key", "source", "provenance", "summed", "node_name"),
    )
    zones.samples.extend(
        ((view.zone.key, view.zone.source, view.zone.provenance, str(view.zone.summed).lower(), node), 1.0)
        for view in picture.zones
    )
    yield zones


def _by_domain(views: list[ZoneView]) -> dict[tuple[str, str], list[ZoneView]]:
    """(`zone`, `path`) -> what is summed there: the domain's name, and the paths of its zones."""
    found: dict[str, list[ZoneView]] = defaultdict(list)
    for view in views:
        # Of GPUs each board stands alone; sockets of one machine are one to Kepler.
        found[view.zone.key if view.zone.domain in ("gpu", "module") else view.zone.domain].append(view)
    return {(name, ",".join(sorted(view.zone.path for view in several))): several for name, several in found.items()}
