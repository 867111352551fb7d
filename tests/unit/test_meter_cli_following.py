"""A daemon that goes and comes back, and one that says what asking again will not mend (row D1)."""

from __future__ import annotations

import grp
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import HostRefused, MeterRefused
from appliance.meter.client import unreached
from appliance.meter.daemon.messages import WatchLine, encode
from appliance.meter.faces.following import Follower, Lost, Seen
from appliance.meter.faces.naming import Known
from tests.readings_builder import BOOT
from tests.watch_lines import CONTAINER


def _line(second: int) -> dict[str, Any]:
    found = WatchLine(
        version="0.1.0", boot_id=BOOT, boottime_ns=str(second * 10**9), monotonic_ns=str(second * 10**9), skew_ns=1,
        cpus=2, tick_ns=4_000_000, cpu_unit="us", period_ns=10**8, zones=(), absent=(), cgroups=(), raw=("0",),
        events=(), gaps={}, cpu_seconds=0.1, windows=0,
    )  # fmt: skip
    value: dict[str, Any] = json.loads(encode(found))
    return value


class _Client:
    """A connection that gives these lines, then ends as `end` says."""

    def __init__(self, seconds: list[int], end: Exception):
        self._seconds, self._end = seconds, end
        self.closed = False

    def watch(self) -> Iterator[dict[str, Any]]:
        yield from (_line(second) for second in self._seconds)
        raise self._end

    def close_connection(self) -> None:
        self.closed = True


GONE = MeterRefused("it closed the connection", reason="no_meter")


def _follow(clients: list[_Client | Exception], *, patient: bool = True, names: Any = dict) -> Iterator[Seen | Lost]:
    waiting = iter(clients)

    def connect() -> Any:
        found = next(waiting)
        if isinstance(found, Exception):
            raise found
        return found

    return Follower(connect=connect, pause=lambda _: None, names=names).follow(patient=patient)


def _no_meter_here() -> HostRefused:
    return unreached(Path("/run/x.sock"), FileNotFoundError())


def test_a_lost_connection_is_told_and_made_anew() -> None:
    """Seen, lost, seen again; the first line after a loss is a baseline (D1)."""
    first, second = _Client([1, 2], GONE), _Client([9, 10], GONE)
    found = list(itertools.islice(_follow([first, _no_meter_here(), second]), 6))
    assert [type(one) for one in found] == [Seen, Seen, Lost, Lost, Seen, Seen]
    spans = [one.picture.seconds for one in found if isinstance(one, Seen)]
    assert spans == [0.0, 1.0, 0.0, 1.0]
    assert first.closed


def test_the_first_connection_of_a_person_fails_at_once() -> None:
    """Who types `watch` without a daemon is told so, and not left waiting; who exports is patient."""
    with pytest.raises(HostRefused, match="no meter is running"):
        next(_follow([_no_meter_here()], patient=False))
    assert isinstance(next(_follow([_no_meter_here()])), Lost)


def test_a_loss_after_the_first_line_is_outlived_by_everybody() -> None:
    """A restart of the daemon ends nobody's table (D1)."""
    found = list(itertools.islice(_follow([_Client([1], GONE), _Client([5], GONE)], patient=False), 3))
    assert [type(one) for one in found] == [Seen, Lost, Seen]


@pytest.mark.parametrize("reason", ["bad_version", "too_many", "bad_message"])
def test_what_asking_again_does_not_mend_is_raised(reason: str) -> None:
    """A daemon of another version stays one."""
    with pytest.raises(MeterRefused):
        list(_follow([_Client([1], MeterRefused("no", reason=reason))]))


def test_who_may_not_ask_is_told_and_not_left_asking(tmp_path: Path) -> None:
    """A membership that lacks does not come by waiting: PrivilegeRequired, with the group that the socket has."""
    place = tmp_path / "meter.sock"
    place.touch()
    place.chmod(0o660)
    group = grp.getgrgid(place.stat().st_gid).gr_name
    with pytest.raises(HostRefused, match=f"usermod -aG {group} ") as refused:
        next(_follow([unreached(place, PermissionError())]))
    assert refused.value.reason == "PrivilegeRequired"
    place.chmod(0o600)
    assert "no group was given" in str(unreached(place, PermissionError()))


def test_a_meter_that_is_named_and_not_there_is_started_there() -> None:
    """The mend is the command that makes this very socket answer (W11)."""
    assert str(_no_meter_here().mend).endswith("meter serve --socket /run/x.sock")


def test_names_of_containers_that_nobody_shows_are_forgotten() -> None:
    """An exporter that runs for months keeps no list of all containers that ever were."""
    found = next(_follow([_Client([1], GONE)], names=lambda: {CONTAINER[-64:]: Known("web", "docker")}))
    assert isinstance(found, Seen)
    assert found.names == {}
