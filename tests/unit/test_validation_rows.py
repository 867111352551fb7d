"""The rows that a host adds to docs/validation.md: what was measured, and nothing that was not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from appliance.energy.idle import Idle, rest_of
from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.meter.faces.burning import Burnt
from appliance.meter.faces.probe import Probe, Spread, ZoneProbe
from appliance.meter.faces.selftest import Findings, Piece, additivity
from appliance.meter.faces.validation import HEAD, Place, rows
from tests.readings_builder import at_rest, packed, zone

PAGE = (Path(__file__).parents[2] / "docs" / "validation.md").read_text()
PACKAGE = zone("package-0", max_range=None)
IDLE = Idle((rest_of(unpack(at_rest([PACKAGE], [10.0]))),))
PLACE = Place("Some CPU | with a bar, 2 CPUs", "appliance 0.1.0, 2026-01-02")


def _findings(*, counted: bool) -> Findings:
    pieces = []
    for name, cpu, watts in (("a alone", 1.0, 30.0), ("b alone", 0.5, 20.0), ("a together", 1.0, 40.0)):
        readings = unpack(
            packed([PACKAGE] if counted else [], [watts] if counted else [], seconds=1.0, cpu={"solver": cpu})
        )
        window = window_of(readings, IDLE if counted else None)
        pieces.append(Piece(name, Burnt(int(cpu * 1e9) - 12_000_000, 10**9), window, window if counted else None))
    return Findings(tuple(pieces), tuple(additivity(pieces)) if counted else (), {})


def _status(*zones: dict[str, Any]) -> dict[str, Any]:
    return {"version": "0.1.0", "cpuUnit": "us", "counters": list(zones)}


def _described(provenance: str = "hw_shunt", **more: Any) -> dict[str, Any]:
    return {
        "id": "z0", "key": "package-0", "path": "intel-rapl:0", "name": "package-0", "domain": "package", "unit": "uj",
        "maxRange": None, "mostUw": 10**9, "updatePeriodNs": 10**6, "shortestWindowNs": 10**7, "source": "powercap",
        "provenance": provenance, "claimed": None, "summed": True, "flags": [], **more,
    }  # fmt: skip


def test_a_host_without_counters_has_one_row_and_says_nothing_of_energy() -> None:
    """Of CPU time, with what each load was charged beyond what it burnt."""
    found = list(rows(PLACE, _status(), _findings(counted=False), ()))
    assert len(found) == 1
    assert found[0].startswith("| CPU time, cgroup v2 | Some CPU / with a bar, 2 CPUs |")
    assert "a alone: 0.988 s burnt, +12.0 ms" in found[0]
    assert "conservation" not in found[0]


def test_every_source_of_counters_has_a_row_of_its_own() -> None:
    """With its probe, its additivity, and the flags of its zones."""
    seen = ZoneProbe(zone("package-0"), Spread(1_000_000, 1_020_000, 500), (), {})
    probe = Probe(Spread(4800, 38_000, 1000), (seen,))
    status = _status(_described(flags=["mirrored_dies"]), _described(key="gpu-1", id="z1", source="nvml 13"))
    found = list(rows(PLACE, status, _findings(counted=True), (probe,)))
    assert len(found) == 3
    assert "powercap: package-0 (hw_shunt)" in found[1]
    for words in ("conservation exact", "apart by", "changes every 1 ms", "takes 4.8 us", "flags mirrored_dies"):
        assert words in found[1]
    assert found[2].startswith("| nvml 13: gpu-1 (hw_shunt) |")
    assert "changes" not in found[2]


def test_a_fake_tree_is_told_for_one() -> None:
    """Nothing simulated passes for hardware."""
    found = list(rows(PLACE, _status(_described("simulated", claimed="hw_shunt")), _findings(counted=True), ()))
    assert "no hardware" in found[1]


def test_a_row_fits_the_table_of_the_page() -> None:
    """Its columns are the page's, and no text of a host adds one."""
    assert "\n".join(HEAD) in PAGE
    for row in rows(PLACE, _status(_described()), _findings(counted=True), ()):
        assert row.count("|") == HEAD[0].count("|")


def test_the_one_command_of_the_page_is_there() -> None:
    """As its help says."""
    command = next(line for line in PAGE.splitlines() if line.startswith("sudo appliance"))
    words = command.split()[2:-2]
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words[:2], "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "200", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert words[:2] == ["meter", "selftest"]
    for option in words[2:]:
        assert option in ended.stdout
