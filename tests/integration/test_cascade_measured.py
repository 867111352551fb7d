"""A cascade's trial where joules are counted: its client's window is recorded and enters no ranking."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest

from appliance.audit.energy import figures_follow
from appliance.audit.readings import joules_follow
from appliance.meter.opening import Wish
from appliance.solvers.finding import find_solver
from tests.cascade_stub import ANSWER, stub_socket
from tests.measured_bench import feeding, measured_run, plain_tree
from tests.meter_bench import meter_daemon
from tests.trials_bench import records
from tests.trials_suites import small_suite

pytestmark = [pytest.mark.docker, pytest.mark.root]


def slow(link: socket.socket) -> None:
    """Thinks for as long as any counter's floor wants."""
    time.sleep(1.5)
    link.sendall(json.dumps(ANSWER).encode() + b"\n")


def test_a_window_that_only_waits_for_a_cascade_is_below_the_floor_however_long(tmp_path: Path) -> None:
    """By kind, as what a verifier makes of its readings again; its word of itself is in no figure (rows J17, J43)."""
    tree = plain_tree(tmp_path / "powercap")
    control = tmp_path / "control.sock"
    with meter_daemon(tmp_path, tree.root) as daemon, stub_socket(control, slow), feeding(tree, 30):
        ran = measured_run(
            tmp_path / "r",
            small_suite(tmp_path / "suite"),
            find_solver("cascade"),
            wish=Wish(socket=daemon.socket),
            cascade_socket=control,
        )
    (record,) = records(ran.ended)
    (one,) = record.trials
    assert (one.outcome, one.reported_uj) == ("resolved", ANSWER["microjoules"])
    assert one.wall_seconds is not None
    assert one.energy is not None
    assert one.energy.readings is not None
    assert all(figure.below_floor for figure in (one.energy.total, *one.energy.by_role.values()))
    assert one.energy.parts == ()
    figures_follow(record)
    joules_follow(record, tmp_path / "r/blobs", allow_missing=False)
