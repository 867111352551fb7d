"""The stored idle power: what ends it, what spoils it, and that only readings are believed (rows J38, 3.2)."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from appliance.errors import InputRefused, MeterRefused
from appliance.meter import calibration
from appliance.meter.calibration import Calibration, calibration_of, load, measure_rest, store, usable
from appliance.meter.conditions import BOOT, changed, conditions
from tests.readings_builder import BOOT as BOOT_ID
from tests.readings_builder import OPENED_AT, at_rest, zone

PACKAGE = zone("package-0")
HERE = {"kernel": "6.1", "governor": "performance", "temperature": "45000", BOOT: BOOT_ID}
MADE = datetime.fromisoformat(OPENED_AT)


def _calibration(watts: float = 25.0, forced: str | None = None) -> Calibration:
    return calibration_of(at_rest([PACKAGE], [watts], seconds=5.0), here=HERE, forced=forced)


def _why(folder: Path, *, hours: float = 1, zones: object = (PACKAGE,), **here: str | None) -> str | None:
    return usable(zones, folder=folder, now=MADE + timedelta(hours=hours), here={**HERE, **here})[1]  # type: ignore[arg-type]


def test_what_was_stored_is_what_is_loaded(tmp_path: Path) -> None:
    """The powers are computed from the readings again, to the microwatt (J38)."""
    store(_calibration(forced="a container ran"), tmp_path)
    found = load(tmp_path)
    assert found is not None
    assert found == _calibration(forced="a container ran")
    assert found.rest.zones["package-0"].mean_uw == pytest.approx(25_000_000, abs=100)


def test_it_holds_for_a_day_under_the_same_conditions(tmp_path: Path) -> None:
    """24 hours, and not a second longer (3.2)."""
    store(_calibration(), tmp_path)
    assert _why(tmp_path, hours=23.99) is None
    assert _why(tmp_path, hours=24) == "expired at 2026-01-03T03:04:05Z"


@pytest.mark.parametrize(
    ("here", "why"),
    [
        ({"governor": "powersave"}, "governor: powersave now, performance then"),
        ({"kernel": "6.2"}, "kernel: 6.2 now, 6.1 then"),
        ({BOOT: "another"}, "the machine was started again since"),
        ({"turbo": "on"}, "turbo: on now, none that could be read then"),
        ({"temperature": "70000"}, "70 degrees Celsius, was 45"),
    ],
)
def test_any_change_ends_it(tmp_path: Path, here: dict[str, str], why: str) -> None:
    """Governor, turbo, kernel, boot, temperature: each named with what it was (3.2)."""
    store(_calibration(), tmp_path)
    assert _why(tmp_path, **here) == why


def test_a_few_degrees_do_not_end_it(tmp_path: Path) -> None:
    """Temperature moves by itself; what that changes the run's own short look finds (J38)."""
    store(_calibration(), tmp_path)
    assert _why(tmp_path, temperature="52000") is None


def test_other_counters_end_it(tmp_path: Path) -> None:
    """An idle power is that of its counters: one more, one less or another source is another power (3.2)."""
    store(_calibration(), tmp_path)
    assert "counters" in str(_why(tmp_path, zones=[PACKAGE, zone("package-1")]))
    assert "counters" in str(_why(tmp_path, zones=[zone("package-0", source="pyRAPL 0.2.3.1")]))
    assert _why(tmp_path, zones=[{"key": "package-0", "source": "powercap"}]) is None


def test_none_stored_is_a_reason(tmp_path: Path) -> None:
    """And no error: a run measures for itself then."""
    assert load(tmp_path) is None
    assert _why(tmp_path) == "none stored"


@pytest.mark.parametrize("spoil", ["json", "schema", "digest", "readings", "gone", "conditions", "deep"])
def test_a_spoiled_one_is_refused_with_its_place_and_mend(tmp_path: Path, spoil: str) -> None:
    """Whatever was changed: status 3, the file, and the command that makes a new one."""
    page = store(_calibration(), tmp_path)
    (blob,) = tmp_path.glob("*.readings.gz")
    value = json.loads(page.read_text())
    if spoil == "json":
        page.write_text("{")
    elif spoil == "schema":
        page.write_text(json.dumps({**value, "schema": "calibration-v9"}))
    elif spoil == "digest":
        page.write_text(json.dumps({**value, "readings": {"sha256": "../../etc/passwd", "bytes": 1}}))
    elif spoil == "readings":
        blob.write_bytes(at_rest([PACKAGE], [1.0]))
    elif spoil == "gone":
        blob.unlink()
    elif spoil == "conditions":
        page.write_text(json.dumps({**value, "conditions": {"kernel": 6}}))
    else:
        page.write_text("[" * 100_000)
    with pytest.raises(InputRefused) as refused:
        load(tmp_path)
    assert refused.value.where is not None
    assert str(tmp_path) in refused.value.where
    assert refused.value.mend == "appliance meter calibrate"


def test_a_forged_power_in_the_page_changes_nothing(tmp_path: Path) -> None:
    """The page's figures are for people; the readings decide (J44's law)."""
    page = store(_calibration(), tmp_path)
    value = json.loads(page.read_text())
    value["zones"]["package-0"]["meanUw"] = 1
    page.write_text(json.dumps(value))
    found = load(tmp_path)
    assert found is not None
    assert found.rest == _calibration().rest


def test_a_new_one_takes_the_old_ones_place_whole(tmp_path: Path) -> None:
    """Nobody who loads meanwhile finds half of one; readings of the old one do not stay."""
    store(_calibration(25.0), tmp_path)
    ended, failures = threading.Event(), []

    def load_on() -> None:
        while not ended.is_set():
            try:
                assert load(tmp_path) is not None
            except InputRefused as refusal:
                failures.append(refusal)

    reader = threading.Thread(target=load_on)
    reader.start()
    for watts in (26.0, 27.0, 28.0, 29.0):
        store(_calibration(watts), tmp_path)
    ended.set()
    reader.join()
    assert not failures
    assert len(list(tmp_path.iterdir())) == 2


def test_one_that_is_replaced_while_it_is_loaded_is_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page was read, then another took its place and its readings went: the new one is loaded, not refused."""
    store(_calibration(25.0), tmp_path)
    real, replaced = calibration.read_regular, list[Path]()

    def read(path: Path, most: int) -> bytes:
        content = real(path, most)
        if path.suffix == ".json" and not replaced:
            replaced.append(path)
            store(_calibration(26.0), tmp_path)
        return content

    monkeypatch.setattr(calibration, "read_regular", read)
    found = load(tmp_path)
    assert found is not None
    assert found.rest == _calibration(26.0).rest


def test_one_from_the_future_does_not_hold(tmp_path: Path) -> None:
    """A clock that was set back makes no calibration last."""
    store(_calibration(), tmp_path)
    assert "still to come" in str(_why(tmp_path, hours=-2))


class _Meter:
    """Answers as the daemon does; what was asked is kept."""

    class _Answer:
        handle, window, readings = "h1", "w1", b"readings"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def prepare(self, run: str, trial: int | None, roles: object) -> _Answer:
        self.asked.append(f"prepare {trial} {roles}")
        return self._Answer()

    def open(self, handle: str) -> _Answer:
        self.asked.append(f"open {handle}")
        return self._Answer()

    def close(self, window: str) -> _Answer:
        self.asked.append(f"close {window}")
        return self._Answer()

    def release(self, handle: str) -> _Answer:
        self.asked.append(f"release {handle}")
        return self._Answer()


def test_the_machine_at_rest_is_a_window_without_a_trial() -> None:
    """Prepared with no role, opened, slept through, closed, released (J38)."""
    meter = _Meter()
    assert measure_rest(meter, "calibration", lambda: meter.asked.append("sleep")) == b"readings"
    assert meter.asked == ["prepare None ()", "open h1", "sleep", "close w1", "release h1"]


def test_a_broken_off_rest_is_released() -> None:
    """Ctrl-C meanwhile leaves no window open."""
    meter = _Meter()

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_rest(meter, "calibration", interrupted)
    assert meter.asked[-1] == "release h1"


def test_a_meter_without_readings_is_refused() -> None:
    """It opened a window and gives nothing for it: no calibration comes of that."""
    meter = _Meter()
    meter._Answer.readings = None  # type: ignore[assignment]
    try:
        with pytest.raises(MeterRefused, match="no readings"):
            measure_rest(meter, "calibration", lambda: None)
    finally:
        meter._Answer.readings = b"readings"


def test_conditions_are_read_from_the_kernels_files(tmp_path: Path) -> None:
    """Every condition of 3.2 that this machine tells, and None for what it does not."""
    cpus = tmp_path / "sys/devices/system/cpu"
    for name, text in {
        "cpu0/cpufreq/scaling_governor": "performance\n",
        "cpu1/cpufreq/scaling_governor": "powersave\n",
        "intel_pstate/no_turbo": "0\n",
        "cpu0/cpuidle/state0/name": "POLL\n",
        "cpu0/cpuidle/state1/name": "C1\n",
        "cpu0/cpuidle/state10/name": "C10\n",
        "cpu0/cpuidle/state10/disable": "1\n",
        "online": "0-1\n",
    }.items():
        (cpus / name).parent.mkdir(parents=True, exist_ok=True)
        (cpus / name).write_text(text)
    thermal = tmp_path / "sys/class/thermal/thermal_zone0"
    thermal.mkdir(parents=True)
    (thermal / "temp").write_text("51000\n")
    found = conditions(tmp_path / "proc", tmp_path / "sys")
    assert found["governor"] == "performance,powersave"
    assert found["turbo"] == "on"
    assert found["idleStates"] == "POLL,C1"
    assert found["temperature"] == "51000"
    assert found["kernel"] is None


def test_a_temperature_that_is_none_is_a_change() -> None:
    """A page that was written by hand raises nothing."""
    assert changed({"temperature": "warm"}, {"temperature": "45000"}) is not None


def test_this_machine_has_conditions_that_do_not_change_by_themselves() -> None:
    """Read twice, equal twice (but for the temperature)."""
    assert changed(conditions(), conditions()) is None
    assert datetime.now(UTC) > MADE
