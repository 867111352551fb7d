"""The exporter: follows the daemon in a thread, answers /metrics from the last picture. Only importer of prometheus."""

from __future__ import annotations

import ipaddress
import platform
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from appliance.errors import HostRefused, Refusal, UsageRefused
from appliance.meter.faces.following import Follower, Lost, Seen
from appliance.meter.faces.metrics import metrics

LISTEN: Final = "127.0.0.1:9102"


@dataclass(frozen=True)
class Listen:
    host: str
    port: int

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def listen_of(text: str) -> Listen:
    """`HOST:PORT` or `[V6]:PORT`; a host must be said: nothing means every address to too many programs."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageRefused("no address to listen at", where=f"--listen {text}", mend=f"as {LISTEN}")
    return Listen(host, int(port))


class Exporter:
    """`say` gets a line whenever the daemon goes or comes back. Leaving it ends server and thread."""

    def __init__(self, listen: Listen, follower: Follower, say: Callable[[str], None]):
        """Raises UsageRefused without prometheus-client, HostRefused where the address cannot be had."""
        library = _prometheus()
        self._follower = follower
        self._say = say
        self._seen: Seen | None = None
        self._ended = threading.Event()
        self.failed: Refusal | None = None
        self._node = platform.node() or "unknown"
        registry = library.CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            self._server, self._thread = library.start_http_server(listen.port, addr=listen.host, registry=registry)
        except OSError as error:
            raise HostRefused(
                f"cannot listen: {error.strerror or error}",
                where=f"{listen.host}:{listen.port}",
                mend="--listen HOST:PORT",
                reason="listen",
            ) from error
        self.port = int(self._server.server_port)
        self._following = threading.Thread(target=self._follow, name="follow the meter", daemon=True)

    def collect(self) -> Iterator[Any]:
        """prometheus-client's own interface: called at each scrape, by the server's threads."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        family: CounterMetricFamily | GaugeMetricFamily
        for metric in metrics(self._seen, self._node):
            if metric.kind == "counter":
                family = CounterMetricFamily(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
            else:
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for values, number in metric.samples:
                family.add_metric(values, number)
            yield family

    def wait(self) -> None:
        """Follows the meter till closed, or till it answers what asking again will not mend: that is raised."""
        self._following.start()
        self._ended.wait()
        if self.failed is not None:
            raise self.failed

    def close(self) -> None:
        self._ended.set()
        client = self._follower.client
        if client is not None:
            client.shutdown()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _follow(self) -> None:
        lost = False
        try:
            for one in self._follower.follow():
                if self._ended.is_set():
                    return
                if isinstance(one, Lost):
                    self._seen = None
                    if not lost:
                        self._say(f"{one.why}; asking again")
                elif lost or self._seen is None:
                    self._say("the meter answers")
                lost = isinstance(one, Lost)
                if isinstance(one, Seen):
                    self._seen = one
        except Refusal as refusal:
            self._seen, self.failed = None, refusal
            self._ended.set()


def _prometheus() -> Any:
    try:
        import prometheus_client
    except ImportError as error:
        raise UsageRefused(
            "the exporter needs prometheus-client", mend="pip install 'bench-appliance[export]'", reason="no_prometheus"
        ) from error
    return prometheus_client
