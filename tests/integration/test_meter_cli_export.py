"""The exporter over the real daemon: what Prometheus gets, and that the dashboard asks for nothing else (row D2)."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.meter_bench import Daemon, meter_daemon
from tests.meter_steady import steady
from tests.sysfs_tree import PowercapTree

_COMMAND = [sys.executable, "-m", "appliance.cli.main", "meter", "export"]
_DASHBOARD = Path(__file__).resolve().parents[2] / "docs" / "grafana" / "bench-appliance.json"
_METRIC = re.compile(r"\b(?:kepler|appliance)_[a-z0-9_]+")


class _Exporter:
    def __init__(self, process: subprocess.Popen[str], address: str):
        self.process = process
        self.address = address

    def scrape(self) -> str:
        with urllib.request.urlopen(self.address, timeout=60) as answer:  # noqa: S310 - ours, on loopback
            return str(answer.read().decode())

    def until(self, wanted: str) -> str:
        """Scrapes till `wanted` is in what is served."""
        for _ in range(300):
            text = self.scrape()
            if wanted in text:
                return text
            time.sleep(0.1)
        raise AssertionError(f"{wanted} never came: {text}")


@contextlib.contextmanager
def _exporter(place: Path, *words: str) -> Iterator[_Exporter]:
    process = subprocess.Popen(
        [*_COMMAND, "--listen", "127.0.0.1:0", "--meter-socket", str(place), *words], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        said = process.stderr.readline()
        assert "serving " in said, said
        yield _Exporter(process, said.split()[1])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages(2, dram=True)
    with meter_daemon(tmp_path, tree.root) as found, steady(tree, {"intel-rapl:0": 20.0, "intel-rapl:1": 10.0}):
        yield found


@pytest.mark.root
def test_what_is_served_is_the_meters_and_conserves(daemon: Daemon) -> None:
    """Kepler's names with joules in them, conservation error 0, its own CPU time (D2)."""
    with _exporter(daemon.socket) as exporter:
        text = exporter.until('kepler_container_cpu_joules_total{container_id="meter"')
        assert re.search(r'^kepler_node_cpu_joules_total\{.*zone="package"\} [0-9.e+-]+$', text, re.M)
        assert re.search(r"^appliance_meter_conservation_error_microjoules\{[^}]*\} 0\.0$", text, re.M)
        assert re.search(r"^appliance_meter_cpu_seconds_total\{[^}]*\} [0-9.]+$", text, re.M)
        assert re.search(r"^appliance_meter_up\{[^}]*\} 1\.0$", text, re.M)
    assert exporter.process.returncode == 143


@pytest.mark.root
def test_every_metric_of_the_dashboard_is_served(daemon: Daemon) -> None:
    """A panel that asks for a name which nobody serves stays empty without a word (D2)."""
    dashboard = json.loads(_DASHBOARD.read_text())
    asked = {name for panel in dashboard["panels"] for one in panel["targets"] for name in _METRIC.findall(one["expr"])}
    asked |= {name for one in dashboard["templating"]["list"] for name in _METRIC.findall(json.dumps(one["query"]))}
    with _exporter(daemon.socket) as exporter:
        text = exporter.until("kepler_container_cpu_joules_total{")
    served = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert len(asked) > 10
    assert asked <= served


@pytest.mark.root
def test_promtool_takes_it(daemon: Daemon) -> None:
    """Debian's own reader parses all of it; its one remark is of the unit that D2 asks for by name (D2)."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool (Debian: apt-get install prometheus)")
    with _exporter(daemon.socket) as exporter:
        text = exporter.until("kepler_container_cpu_joules_total{")
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    remarks = (checked.stdout + checked.stderr).splitlines()
    assert all(one.startswith("appliance_meter_conservation_error_microjoules use base unit") for one in remarks)
    assert checked.returncode in (0, 3)


@pytest.mark.root
def test_a_restarted_daemon_is_found_again(tmp_path: Path) -> None:
    """Without it only `up 0` is served, never old figures; then the counters go on (D2)."""
    tree = PowercapTree(tmp_path / "powercap")
    tree.packages()
    place = tmp_path / "meter.sock"
    with _exporter(place) as exporter, steady(tree, {"intel-rapl:0": 20.0}):
        assert "appliance_meter_up" in exporter.until("} 0.0")
        assert "kepler_node" not in exporter.scrape()
        with meter_daemon(tmp_path, tree.root):
            exporter.until("kepler_node_cpu_joules_total{")
        exporter.until('appliance_meter_up{node_name="' + socket.gethostname() + '"} 0.0')
        with meter_daemon(tmp_path, tree.root):
            exporter.until("kepler_node_cpu_joules_total{")


def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Status 4, the address, what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = ["--listen", f"127.0.0.1:{port}", "--meter-socket", str(tmp_path / "x.sock")]
        ended = subprocess.run([*_COMMAND, *words], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 4
    assert f"127.0.0.1:{port}: cannot listen" in ended.stderr


def test_without_the_library_the_extra_is_named(tmp_path: Path) -> None:
    """prometheus-client is no dependency of a bench: status 2 says how to get it (D2)."""
    program = (
        "import sys; sys.modules['prometheus_client'] = None\n"
        "from appliance.cli.main import run\n"
        f"sys.exit(run(['meter', 'export', '--meter-socket', {str(tmp_path / 'x')!r}]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 2
    assert "pip install 'bench-appliance[export]'" in ended.stderr


def test_it_listens_on_loopback_unless_told(tmp_path: Path) -> None:
    """By default only this machine reads it (D2)."""
    ended = subprocess.run([*_COMMAND, "--help"], capture_output=True, text=True, check=False, timeout=60)
    assert "127.0.0.1:9102" in ended.stdout
    words = ["--listen", ":9102", "--meter-socket", str(tmp_path / "x")]
    refused = subprocess.run([*_COMMAND, *words], capture_output=True, text=True, check=False, timeout=60)
    assert refused.returncode == 2
