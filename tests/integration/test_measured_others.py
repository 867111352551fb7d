"""A third party's meter in a run of ours, and a measured record on a machine that measures nothing."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import HostRefused, UsageRefused
from appliance.meter.local import LocalMeter
from appliance.meter.opening import Wish
from appliance.meter.plugins import GROUP, MeterRequest
from appliance.ports import StoredRest
from appliance.records.record import MeterStamp, Record
from appliance.solvers.finding import find_solver
from tests.measured_bench import idle_words, measured_run, plain_tree
from tests.meter_bench import meter_daemon
from tests.trials_bench import left_of, records, trial
from tests.trials_suites import small_suite
from tests.typed_runs import run_id, said_by, started, there_with_two_tasks

pytestmark = [pytest.mark.docker, pytest.mark.root]


class SunDial:
    """A meter of somebody else's: cgroups as ours, and a look at rest that it cannot give."""

    counts = True

    def __init__(self, request: MeterRequest):
        self._cgroups = LocalMeter(request.planned.model_copy(update={"mode": "estimator"}), request.engine)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cgroups, name)

    def stamp(self) -> MeterStamp:
        return self._cgroups.stamp().model_copy(update={"name": "sundial", "version": "9"})

    def stored(self) -> StoredRest | None:
        return None

    def idle(self, run: str, pause: Callable[[], None]) -> bytes | None:
        return None


class Older:
    """One that was written before meters looked at the machine at rest."""

    def __init__(self, request: MeterRequest):
        self.stamp = request


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A distribution as pip would leave it."""
    folder = tmp_path / "sundial-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: sundial\nVersion: 9\n")
    names = {"sundial": "SunDial", "older": "Older"}
    points = "".join(f"{name} = {__name__}:{what}\n" for name, what in names.items())
    (folder / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield


@pytest.mark.usefixtures("_installed")
def test_a_meter_by_name_measures_a_run_in_ours_place(tmp_path: Path) -> None:
    """It stamps the record; no counter of ours is asked for (J47)."""
    suite = small_suite(tmp_path / "suite")
    ran = measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(name="sundial"))
    record = records(ran.ended)[0]
    assert (record.meter.name, record.meter.version) == ("sundial", "9")
    assert trial(ran.ended).energy is not None
    assert idle_words(tmp_path / "r") == []
    assert left_of(ran.ended.run) == []


@pytest.mark.usefixtures("_installed")
def test_a_meter_that_lacks_a_member_is_refused_before_any_trial(tmp_path: Path) -> None:
    """And one that nobody installed is named with those that are there (J47)."""
    suite = small_suite(tmp_path / "suite")
    with pytest.raises(HostRefused, match=r"it lacks counts, prepare") as refusal:
        measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(name="older"))
    assert "older" in str(refusal.value)
    with pytest.raises(UsageRefused, match="sundial"):
        measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(name="hourglass"))
    assert not (tmp_path / "r").exists()


def test_the_meter_local_reads_no_counter_and_says_so(tmp_path: Path) -> None:
    """Asked for by name it estimates, whatever counters there are (J36, J47)."""
    suite = small_suite(tmp_path / "suite")
    ran = measured_run(
        tmp_path / "r", suite, find_solver("noop"), wish=Wish(name="local"), mode="auto", scheduling="shared"
    )
    record = records(ran.ended)[0]
    assert record.meter.reason == "the meter 'local' reads no counter"
    assert record.trials[0].energy is not None
    assert record.trials[0].energy.total.basis == "modelled"


def test_a_measured_record_is_reproduced_where_nothing_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outcome is compared, its energy is not: there is none, and no model stands in (J34, decisions: Verdict)."""
    there = there_with_two_tasks(tmp_path, monkeypatch)
    tree = plain_tree(tmp_path / "powercap")
    with meter_daemon(tmp_path, tree.root) as daemon:
        words = (
            "--suite",
            "small",
            "--solver",
            "reference",
            "--energy",
            "measured",
            "--idle-seconds",
            "2",
            "--no-sign",
        )
        process = started(there, "run", *words, "--out", "r", "--meter-socket", str(daemon.socket))
        said = said_by(process)
    assert process.returncode == 0, said
    process = started(there, "reproduce", "r/records/reference.json", "--out", "again", "--json")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    verdict = json.loads(out)
    assert verdict["outcome"]["verdict"] == "reproduced"
    assert verdict["energy"]["verdict"] == "incomparable"
    again = Record.read(there / "again" / "records" / "reference.json")
    assert again.meter.mode == "measured"
    assert again.meter.reason
    for result in again.trials:
        assert result.energy is not None
        assert result.energy.total.net_uj is None
        assert result.energy.total.missing == again.meter.reason
        assert result.cpu_source == "cgroup_parent"
    assert left_of(run_id(there / "again") or "") == []
