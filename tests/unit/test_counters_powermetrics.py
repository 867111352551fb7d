"""macOS's powermetrics: the parser on samples made by hand, the counter over a program that plays it."""

from __future__ import annotations

import plistlib
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.meter.counters.powermetrics import COMMAND, IOREPORT, ChipEnergy, PowermetricsCounter, parse_sample


def sample(elapsed_ns: int = 100_000_000, **processor: Any) -> bytes:
    return plistlib.dumps({"is_delta": True, "elapsed_ns": elapsed_ns, "hw_model": "Mac14,2", "processor": processor})


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (sample(cpu_energy=420, gpu_energy=12, ane_energy=0, cpu_power=4200.0), ChipEnergy(432_000, 100_000_000)),
        (sample(cpu_energy=420), ChipEnergy(420_000, 100_000_000)),
        (sample(cpu_energy=0, gpu_energy=0), ChipEnergy(0, 100_000_000)),
        (sample(combined_power=4321.5), ChipEnergy(432_150, 100_000_000)),
        (sample(50_000_000, package_joules=1.25, package_watts=25.0), ChipEnergy(1_250_000, 50_000_000)),
        (b"\0" + sample(cpu_energy=1) + b"\n", ChipEnergy(1_000, 100_000_000)),
        (sample(), "NO_ENERGY"),
        (sample(cpu_energy=-1), "NO_ENERGY"),
        (sample(cpu_energy=True), "NO_ENERGY"),
        (sample(combined_power=float("nan")), "NO_ENERGY"),
        (sample(combined_power=float("inf")), "NO_ENERGY"),
        (sample(0, cpu_energy=1), "NOT_A_SAMPLE"),
        (plistlib.dumps({"elapsed_ns": 5}), "NOT_A_SAMPLE"),
        (plistlib.dumps([1]), "NOT_A_SAMPLE"),
        (b"", "NOT_A_SAMPLE"),
        (b"<plist", "NOT_A_SAMPLE"),
        (b"CPU Power: 4200 mW", "NOT_A_SAMPLE"),
        (sample(cpu_energy=1)[:-20], "NOT_A_SAMPLE"),
    ],
)
def test_a_sample_is_the_energy_of_the_whole_chip(content: bytes, found: ChipEnergy | str) -> None:
    """Of its parts in millijoules, else of its power over the time; anything else is no sample (D4)."""
    assert parse_sample(content) == found


def playing(tmp_path: Path, *lines: str) -> list[str]:
    program = tmp_path / "powermetrics"
    program.write_text(f"#!{sys.executable}\nimport sys, time\n" + "\n".join(lines) + "\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return [str(program)]


def until_read(counter: PowermetricsCounter, wanted: object) -> object:
    end = time.monotonic() + 20
    while (found := list(counter.read())) != wanted and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_samples_add_up_to_a_counter(tmp_path: Path) -> None:
    """Modelled, of the whole chip; a program that is not macOS's own is simulated (D4 J40)."""
    one = sample(cpu_energy=1500)
    command = playing(
        tmp_path,
        f"out = sys.stdout.buffer; one = {one!r}",
        "out.write(one); out.flush(); time.sleep(0.1)",
        "out.write(b'\\0' + one[:50]); out.flush(); time.sleep(0.1)",
        "out.write(one[50:] + b'\\n'); out.flush(); time.sleep(0.1)",
        "out.write(b'\\0' + one); out.flush(); time.sleep(60)",
    )
    counter = PowermetricsCounter(command, platform="darwin")
    zone = counter.zones()[0]
    assert (zone.domain, zone.unit, zone.provenance, zone.claimed) == ("soc", "uj", "simulated", "model_based")
    assert counter.absent() == (IOREPORT,)
    assert until_read(counter, [4_500_000]) == [4_500_000]
    counter.close()
    counter.close()
    assert counter.read() == ()


def test_what_stops_coming_is_stale(tmp_path: Path) -> None:
    """(D4 W12)"""
    command = playing(
        tmp_path, f"sys.stdout.buffer.write({sample(cpu_energy=1)!r}); sys.stdout.flush(); time.sleep(60)"
    )
    counter = PowermetricsCounter(command, platform="darwin")
    assert until_read(counter, [1000]) == [1000]
    assert until_read(counter, ["STALE"]) == ["STALE"]
    counter.close()


@pytest.mark.parametrize(
    ("lines", "lack"),
    [
        (["sys.stdout.write('nothing of ours\\0\\n')", "sys.stdout.flush()", "time.sleep(60)"], "NOT_A_SAMPLE"),
        (["sys.stdout.write('x' * 3_000_000)", "sys.stdout.flush()", "time.sleep(60)"], "NOT_A_SAMPLE"),
        (["sys.exit(1)"], "ENODEV"),
    ],
)
def test_a_program_that_fails_is_a_gap_and_another_zone_when_it_runs_again(
    tmp_path: Path, lines: list[str], lack: str
) -> None:
    """What it lost is never bridged (D4 W13)."""
    counter = PowermetricsCounter(playing(tmp_path, *lines), platform="darwin")
    before = counter.zones()[0].id
    assert until_read(counter, [lack]) == [lack]
    deadline = time.monotonic() + 20
    while not counter.rescan() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert counter.zones()[0].id != before
    counter.close()


def test_elsewhere_than_on_macos_it_is_absent_with_its_reason(tmp_path: Path) -> None:
    """And IOReport everywhere (J40)."""
    counter = PowermetricsCounter(platform="linux")
    assert counter.zones() == ()
    assert [one.path for one in counter.absent()] == ["powermetrics", "IOReport"]
    assert not counter.rescan()
    assert counter.read() == ()
    assert "private interface" in IOREPORT.reason
    missing = PowermetricsCounter([str(tmp_path / "powermetrics")], platform="darwin")
    assert missing.zones() == ()
    assert missing.absent()[0].reason.startswith("FileNotFoundError")
    assert COMMAND[0] == "/usr/bin/powermetrics"
