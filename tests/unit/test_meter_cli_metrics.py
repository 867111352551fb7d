"""The exporter's metrics as values: Kepler's names and labels, ours beside them (row D2)."""

from __future__ import annotations

import pytest

from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import unpack
from appliance.errors import UsageRefused
from appliance.meter.faces.export import Listen, listen_of
from appliance.meter.faces.following import Seen
from appliance.meter.faces.ledger import Ledger
from appliance.meter.faces.metrics import Metric, metrics
from appliance.meter.faces.naming import Known
from tests.readings_builder import at_rest, zone
from tests.watch_lines import CONTAINER, line

ZONES = [
    zone("package-0", max_range=None),
    zone("package-1", max_range=None, path="intel-rapl:1"),
    zone("package-0/dram", max_range=None, path="intel-rapl:0:0"),
]
WATTS = [10.0, 10.0, 1.0]


def _metrics(*, calibrated: bool = True) -> dict[str, Metric]:
    idle = Idle((), rest_of(unpack(at_rest(ZONES, WATTS)))) if calibrated else None
    ledger = Ledger(idle)
    ledger.take(line(0, dict.fromkeys(ZONES, 0), 0, {CONTAINER: 0}))
    used = dict(zip(ZONES, (20_000_000, 15_000_000, 3_000_000), strict=True))
    picture = ledger.take(line(1, used, 1_000_000, {CONTAINER: 500_000}, gaps={"EIO": 3}))
    return {one.name: one for one in metrics(Seen(picture, {"ab" * 32: Known("web", "docker")}), "host1")}


def _value(found: Metric, **labels: str) -> float:
    return next(
        number
        for values, number in found.samples
        if labels.items() <= dict(zip(found.labels, values, strict=True)).items()
    )


def test_names_and_labels_are_keplers() -> None:
    """As Kepler 0.10 and newer has them: zone, container_id, container_name, state, and the rest of its labels (D2)."""
    found = _metrics()
    for name in ("kepler_container_cpu_joules_total", "kepler_container_cpu_watts"):
        labels = ("container_id", "container_name", "runtime", "state", "zone", "pod_id", "node_name")
        assert found[name].labels == labels
    for name in ("joules_total", "idle_joules_total", "active_joules_total", "watts", "idle_watts", "active_watts"):
        assert found[f"kepler_node_cpu_{name}"].labels == ("zone", "path", "node_name")


def test_zones_of_one_name_are_summed_over_the_sockets() -> None:
    """`zone="package"` is both packages, in joules; dram stands beside it, never in it (D2, ZN3)."""
    found = _metrics()
    node = found["kepler_node_cpu_joules_total"]
    assert _value(node, zone="package", path="intel-rapl:0,intel-rapl:1") == pytest.approx(35.0)
    assert _value(node, zone="dram") == pytest.approx(3.0)
    assert len(node.samples) == 2


def test_idle_and_active_are_the_whole() -> None:
    """35 J of packages are 20 J idle and 15 J active, and half of the active is the container's (D2, S1)."""
    found = _metrics()
    idle = _value(found["kepler_node_cpu_idle_joules_total"], zone="package")
    active = _value(found["kepler_node_cpu_active_joules_total"], zone="package")
    assert idle == pytest.approx(20.0)
    assert idle + active == pytest.approx(35.0)
    container = _value(
        found["kepler_container_cpu_joules_total"], zone="package", container_name="web", state="running"
    )
    assert container == pytest.approx(7.5)
    assert _value(found["appliance_node_system_joules_total"], zone="package") == pytest.approx(7.5)


def test_without_an_idle_power_there_is_no_idle_metric() -> None:
    """Not zero: no sample at all (missing is not zero)."""
    found = _metrics(calibrated=False)
    assert found["kepler_node_cpu_idle_joules_total"].samples == []
    assert found["kepler_node_cpu_active_joules_total"].samples == []
    assert found["kepler_node_cpu_joules_total"].samples


def test_ours_tell_of_the_meter_itself() -> None:
    """Conservation error 0, gaps by reason, its own CPU time (D2, report 17)."""
    found = _metrics()
    assert _value(found["appliance_meter_conservation_error_microjoules"]) == 0
    assert _value(found["appliance_meter_gaps_total"], reason="EIO") == 3
    assert _value(found["appliance_meter_cpu_seconds_total"]) == 0.5
    assert _value(found["appliance_meter_up"]) == 1


def test_without_a_daemon_only_that_is_told() -> None:
    """Old figures of a meter that is gone would be taken for new ones."""
    (up,) = metrics(None, "host1")
    assert (up.name, up.samples) == ("appliance_meter_up", [(("host1",), 0.0)])


def test_no_series_stands_twice() -> None:
    """Two samples with the same labels would make Prometheus refuse the scrape."""
    for metric in _metrics().values():
        assert len({values for values, _ in metric.samples}) == len(metric.samples)


@pytest.mark.parametrize(
    ("text", "listen", "loopback"),
    [
        ("127.0.0.1:9102", Listen("127.0.0.1", 9102), True),
        ("localhost:0", Listen("localhost", 0), True),
        ("[::1]:9102", Listen("::1", 9102), True),
        ("0.0.0.0:9102", Listen("0.0.0.0", 9102), False),
        ("bench.example:9102", Listen("bench.example", 9102), False),
    ],
)
def test_an_address_is_read_and_known_for_loopback_or_not(text: str, listen: Listen, loopback: bool) -> None:
    """Whoever listens beyond this machine said so (D2)."""
    assert listen_of(text) == listen
    assert listen.loopback is loopback


@pytest.mark.parametrize("text", ["9102", ":9102", "127.0.0.1", "127.0.0.1:99999", "127.0.0.1:x", ""])
def test_no_host_or_no_port_is_refused(text: str) -> None:
    """An empty host would mean every address to the library beneath (D2)."""
    with pytest.raises(UsageRefused, match="no address"):
        listen_of(text)
