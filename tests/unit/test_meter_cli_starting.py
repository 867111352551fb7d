"""Whether the daemon may start here, and what it is started as (formats 9, row W11)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from appliance.errors import HostRefused, MeterRefused, UsageRefused
from appliance.meter.faces import starting
from appliance.meter.faces.status import refuse_no_counter, status_lines
from tests.sysfs_tree import PowercapTree

_ROOT = "CapEff:\t000001ffffffffff\n"
_READER = f"CapEff:\t{1 << 2:016x}\n"
_NOBODY = "CapEff:\t0000000000000000\n"


def test_capabilities_are_read_from_the_kernels_mask() -> None:
    """CAP_DAC_READ_SEARCH is bit 2; what has no mask has none."""
    assert starting.capabilities(f"Name:\tx\n{_READER}") == {2}
    assert starting.capabilities("Name:\tx\n") == frozenset()
    assert {1, 2, 21} <= starting.capabilities(_ROOT)


def test_root_may_start_it() -> None:
    """Also where there is no counter at all: cgroups and CPU time are worth it."""
    starting._refuse_unprivileged(_ROOT, Path("/nonexistent"))


def test_without_a_right_the_refusal_names_it_and_the_mend(tmp_path: Path) -> None:
    """Neither root nor a capability: status 4, before anything was made."""
    PowercapTree(tmp_path / "powercap").packages()
    with pytest.raises(HostRefused, match="cgroups") as refused:
        starting._refuse_unprivileged(_NOBODY, tmp_path / "powercap")
    assert str(refused.value.mend).endswith("appliance meter serve")
    assert refused.value.status == 4


def test_a_named_folder_of_counters_that_is_absent_is_refused(tmp_path: Path) -> None:
    """A slip on the command line, status 2, and not a host without counters (J41)."""
    with pytest.raises(UsageRefused, match="no such folder"):
        starting.refuse_unable(tmp_path / "meter.sock", "root", tmp_path / "typo")


def test_an_unknown_group_is_refused_with_the_command_that_makes_it() -> None:
    """Without it nobody but root could ask."""
    with pytest.raises(HostRefused) as refused:
        starting._refuse_unknown_group("no-such-group-here")
    assert "groupadd --system no-such-group-here" in str(refused.value.mend)


def test_a_socket_that_nobody_listens_on_is_removed(tmp_path: Path) -> None:
    """A daemon that was killed left it."""
    place = tmp_path / "meter.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(place))
    starting._clear(place)
    assert not place.exists()


def test_a_socket_that_answers_is_left_alone(tmp_path: Path) -> None:
    """Two meters at one place would undo each other's cgroups."""
    place = tmp_path / "meter.sock"
    with socket.socket(socket.AF_UNIX) as alive:
        alive.bind(os.fspath(place))
        alive.listen()
        with pytest.raises(HostRefused, match="running already") as refused:
            starting._clear(place)
    assert f"appliance meter status --meter-socket {place}" in str(refused.value.mend)
    assert place.exists()


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    """We remove nothing that is not a socket."""
    place = tmp_path / "meter.sock"
    place.write_text("mine")
    with pytest.raises(HostRefused, match="no socket"):
        starting._clear(place)
    assert place.read_text() == "mine"


def test_the_daemon_runs_isolated() -> None:
    """-I: neither the user's folder nor PYTHONPATH gives root code to run."""
    argv = starting.daemon_argv(
        "/usr/bin/python3", socket=Path("/run/x.sock"), group="bench", powercap=None, period_ms=100
    )
    assert argv[:4] == ["/usr/bin/python3", "-I", "-m", "appliance.meter.daemon.serve"]
    assert "--powercap-root" not in argv


_STATUS = {
    "version": "0.1.0",
    "counters": [
        {
            "id": "z0", "key": "package-0", "path": "intel-rapl:0", "name": "package-0", "domain": "package",
            "unit": "uj", "maxRange": 262143328850, "mostUw": 10**9, "updatePeriodNs": 10**6,
            "shortestWindowNs": 10**7, "source": "powercap", "provenance": "simulated", "claimed": "hw_shunt",
            "summed": True, "flags": ["mirrored_dies"], "somethingNew": 1,
        }
    ],
    "absent": [{"path": "intel-rapl:1", "reason": "EACCES", "mend": "sudo appliance meter serve"}],
    "windows": 2,
    "gaps": {"EIO": 3, "ENODEV": 0},
    "cpuSeconds": 1.25,
}  # fmt: skip


def test_status_names_counters_lacks_and_gaps() -> None:
    """Each counter with its provenance, each absent one with reason and mend, gaps by reason (W11, W12)."""
    text = "\n".join(status_lines("/run/meter.sock", _STATUS))
    assert "package-0: powercap, simulated, posing as hw_shunt, mirrored_dies" in text
    assert "intel-rapl:1: EACCES (sudo appliance meter serve)" in text
    assert "2 open" in text
    boards = {"path": "libnvidia-ml.so.1", "reason": "LIBRARY_NOT_FOUND", "mend": None}
    assert "\n".join(status_lines("/run/meter.sock", {**_STATUS, "absent": [*_STATUS["absent"], boards]})) == text
    assert "3 EIO" in text
    assert "ENODEV" not in text
    assert "1.25 s" in text


def test_a_status_of_another_make_is_refused() -> None:
    """One line, no traceback."""
    with pytest.raises(MeterRefused, match="restart the meter"):
        list(status_lines("/run/meter.sock", {"version": "9", "counters": [{"id": 1}]}))


def test_no_counter_is_refused_with_what_is_absent() -> None:
    """`calibrate` without a counter: status 6, the lack's own words (L5's law)."""
    refuse_no_counter(_STATUS)
    with pytest.raises(MeterRefused, match="EACCES") as refused:
        refuse_no_counter({**_STATUS, "counters": []})
    assert refused.value.status == 6
    assert refused.value.mend == "sudo appliance meter serve"
