"""docs/meter.md for a newcomer without counters: what it says to type works."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.meter.faces.validation import HEAD
from tests.meter_bench import meter_daemon, run_of_its_own

PAGE = (Path(__file__).parents[2] / "docs" / "meter.md").read_text()


@pytest.mark.root
def test_the_counter_that_a_newcomer_writes_is_read_without_a_gap_and_simulated(tmp_path: Path) -> None:
    """Copied out of the page; a window over it is at least the 10 W that it says, and no hardware's."""
    shown = re.search(r"<!-- run by a test -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert shown is not None
    tree = tmp_path / "powercap"
    program = shown.group(1).replace("/tmp/powercap", str(tree))
    counter = subprocess.Popen([sys.executable, "-c", program])
    try:
        for _ in range(500):
            if (tree / "intel-rapl:0" / "energy_uj").exists():
                break
            time.sleep(0.02)
        with meter_daemon(tmp_path, tree) as daemon, daemon.client() as client, run_of_its_own() as run:
            prepared = client.prepare(run, 0, ["solver"])
            window = client.open(prepared.handle)
            time.sleep(1)
            client.close(window.window)
            readings = client.release(prepared.handle).readings
    finally:
        counter.kill()
        counter.wait()
    assert readings is not None
    (zone,) = window_of(unpack(readings), None).zones
    assert (zone.key, zone.provenance, zone.claimed) == ("package-0", "simulated", "hw_shunt")
    assert set(zone.flags) <= {"no_idle"}
    assert zone.gross_uj is not None
    assert zone.gross_uj > 9_000_000


@pytest.mark.root
def test_a_host_without_counters_prints_its_one_row(tmp_path: Path) -> None:
    """The table's head and CPU time; nothing is claimed of counters that are not there."""
    words = ["selftest", "--validation", "--cgroups", "--seconds", "0.1"]
    with meter_daemon(tmp_path) as daemon:
        ended = subprocess.run(
            [sys.executable, "-m", "appliance.cli.main", "meter", *words, "--meter-socket", str(daemon.socket)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    head, rule, row = ended.stdout.splitlines()
    assert (head, rule) == HEAD
    assert row.startswith("| CPU time, cgroup v")
    assert ", processes in plain cgroups | a alone: 0.1" in row
