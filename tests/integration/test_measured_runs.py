"""Joules from counters: real containers, the real daemon, and a tree of counters that the test moves by hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from appliance.energy.readings import unpack
from appliance.energy.windows import window_of
from appliance.meter.opening import Wish
from appliance.records import journal
from appliance.records.metered import ran_on, trial_energy
from appliance.solvers.finding import find_solver
from tests.measured_bench import (
    PACKAGE,
    Between,
    feeding,
    header_of,
    idle_from,
    idle_words,
    journal_kinds,
    measured_run,
    plain_tree,
    raw_samples,
    readings_of,
    span_of,
    trial_lines,
)
from tests.meter_bench import Daemon, meter_daemon
from tests.sysfs_tree import PowercapTree
from tests.trials_bench import left_of, lines, records, trial
from tests.trials_suites import command, small_suite

pytestmark = [pytest.mark.docker, pytest.mark.root]
BURN = "end=$(($(date +%s) + 2)); while [ $(date +%s) -lt $end ]; do :; done; printf 'exit 0' > program.sh"


@pytest.fixture
def tree(tmp_path: Path) -> PowercapTree:
    return plain_tree(tmp_path / "powercap")


@pytest.fixture
def daemon(tmp_path: Path, tree: PowercapTree) -> Iterator[Daemon]:
    with meter_daemon(tmp_path, tree.root) as running:
        yield running


def apportioned(total: int, weights: list[int]) -> list[int]:
    """Largest remainder, written once more: the rest goes to the largest fractions, the earlier first."""
    whole = sum(weights)
    shares = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: -(total * weights[at] % whole))
    for at in order[: total - sum(shares)]:
        shares[at] += 1
    return shares


def test_the_joules_of_a_container_are_those_computed_by_hand(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """The window's gross is what the tree moved while it was open, to the microjoule, and the trial's share follows
    from its CPU time sample by sample (J08, J44, C2, issue 4: tests).
    """
    suite = small_suite(tmp_path / "suite")
    before: list[int] = []
    after: list[int] = []
    with ExitStack() as moving:

        def opened() -> None:
            before.append(tree.get(PACKAGE))
            moving.enter_context(feeding(tree, 30))

        def closing() -> None:
            moving.close()
            after.append(tree.get(PACKAGE))

        ran = measured_run(
            tmp_path / "r",
            suite,
            command(tmp_path, "burn", BURN),
            wish=Wish(socket=daemon.socket),
            meter=lambda real: Between(real, opened, closing),
        )
    found = trial(ran.ended)
    assert found.outcome == "resolved"
    assert found.energy is not None
    total = found.energy.total
    moved = after[0] - before[0]
    assert moved > 10_000_000
    assert (total.gross_uj, total.idle_uj) == (moved, 0)
    assert moved == (total.net_uj or 0) + (total.system_uj or 0) + (total.others_uj or 0)

    header = header_of(tmp_path / "r", found)
    zone = header.zones[0].id
    own = next(one.id for one in header.cgroups if one.trial == "own")
    members = sorted(one.id for one in header.cgroups)
    net = 0
    used = 0
    for old, new in itertools.pairwise(raw_samples(readings_of(tmp_path / "r", found))):
        steps = {name: (new[name] or 0) - (old[name] or 0) for name in members if name in old and name in new}
        rest = new["machine"] - old["machine"] - sum(steps.values())
        weights = [max(0, steps.get(name, 0)) for name in members] + [max(0, rest)]
        used += steps.get(own, 0)
        if sum(weights):
            net += apportioned(new[zone] - old[zone], weights)[members.index(own)]
    assert found.cpu_seconds["solver"] == pytest.approx(used / (1e6 if header.cpu_unit == "us" else 1e9))
    # v2's machine is counted by ticks: a sample in which it lags behind its members is settled with the next.
    assert total.net_uj == pytest.approx(net, rel=0.02)
    assert total.net_uj > 0


def test_counters_under_another_root_than_the_kernels_are_simulated(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """Whatever they say of themselves; every figure carries it (J34), and `noop` is below the floor by kind (J43)."""
    suite = small_suite(tmp_path / "suite")
    ran = measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=daemon.socket))
    record = records(ran.ended)[0]
    energy = record.trials[0].energy
    assert energy is not None
    for figure in (energy.total, *energy.by_role.values(), *energy.zones.values()):
        assert (figure.provenance, figure.claimed, figure.comparable) == ("simulated", "hw_shunt", False)
        assert figure.below_floor
    assert record.meter.mode == "measured"
    assert record.meter.reason is None
    assert record.meter.counters == ("package-0: powercap",)
    assert left_of(ran.ended.run) == []


def test_auto_takes_the_counters_that_a_meter_reads(tmp_path: Path, tree: PowercapTree, daemon: Daemon) -> None:
    """(J36)"""
    suite = small_suite(tmp_path / "suite")
    ran = measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=daemon.socket), mode="auto")
    energy = trial(ran.ended).energy
    assert energy is not None
    assert energy.total.basis in ("counter", "apportioned")
    assert energy.readings is not None


def test_in_exclusive_scheduling_no_two_windows_overlap(tmp_path: Path, tree: PowercapTree, daemon: Daemon) -> None:
    """Whatever the jobs, by the readings' own clock (design 8)."""
    suite = small_suite(tmp_path / "suite", "a", "b", "c")
    solver = command(tmp_path, "slow", "sleep 1")
    measured_run(tmp_path / "r", suite, solver, wish=Wish(socket=daemon.socket), jobs=3)
    spans = sorted(span_of(header_of(tmp_path / "r", found)) for found in trial_lines(tmp_path / "r"))
    assert len(spans) == 3
    for one, next_one in itertools.pairwise(spans):
        assert one[1] <= next_one[0]


def test_windows_of_shared_scheduling_overlap_and_share_what_was_measured(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """Each window's gross is its net, what the other trial and the system took, and idle (T3); nobody is contended
    for the other trial's sake, and both are apportioned.
    """
    suite = small_suite(tmp_path / "suite", "a", "b")
    with feeding(tree, 20):
        ran = measured_run(
            tmp_path / "r",
            suite,
            command(tmp_path, "burn", BURN),
            wish=Wish(socket=daemon.socket),
            scheduling="shared",
            jobs=2,
        )
    found = records(ran.ended)[0].trials
    one, other = (span_of(header_of(tmp_path / "r", result)) for result in found)
    assert max(one[0], other[0]) < min(one[1], other[1])
    for result in found:
        energy = result.energy
        assert energy is not None
        assert energy.total.basis == "apportioned"
        header = header_of(tmp_path / "r", result)
        assert {cgroup.trial is None for cgroup in header.cgroups if cgroup.role == "solver"} == {False}
        assert len([cgroup for cgroup in header.cgroups if cgroup.role == "solver"]) == 2
        total = energy.total
        if total.net_uj is not None:
            parts = (total.idle_uj, total.system_uj, total.others_uj, total.net_uj)
            assert total.gross_uj == sum(part or 0 for part in parts)
            assert total.others_uj


def test_the_machine_at_rest_is_looked_at_once_before_and_once_after(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """Before the first trial and after the last, whatever their number, each said before it begins; the readings of
    both are blobs of the record (J38), and the host's fitness is looked at on both sides (harness: Machine fitness).
    """
    suite = small_suite(tmp_path / "suite", "a", "b")
    ran = measured_run(tmp_path / "r", suite, find_solver("noop"), wish=Wish(socket=daemon.socket))
    kinds = journal_kinds(tmp_path / "r")
    assert [kind for kind in kinds if kind != "baseline"] == ["host", "idle", "trial", "trial", "idle", "fitness"]
    assert idle_words(tmp_path / "r") == ["before", "after"]
    assert [note for note in ran.notes if "idle" in note] == ["measuring the idle machine (2 s)"] * 2
    record = records(ran.ended)[0]
    assert [look.when for look in record.meter.idle or ()] == ["before", "after"]
    assert record.meter.calibration is None
    for look in record.meter.idle or ():
        assert unpack((tmp_path / "r" / "blobs" / "sha256" / look.readings.sha256).read_bytes()).header.trial is None
        assert look.seconds >= 2
    host = record.hosts[0]
    assert {check.name for check in host.fitness} == {check.name for check in host.fitness_after or ()}


def test_a_resumed_part_is_looked_at_around_itself(tmp_path: Path, tree: PowercapTree, daemon: Daemon) -> None:
    """Two looks a start (J38); a start that runs nothing looks at nothing."""
    suite = small_suite(tmp_path / "suite", "a", "b")
    solver = find_solver("noop")
    wish = Wish(socket=daemon.socket)
    first = measured_run(tmp_path / "r", suite, solver, wish=wish)
    kept = lines(tmp_path / "r")
    content = (tmp_path / "r" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    second_trial = [at for at, line in enumerate((None, *kept)) if isinstance(line, journal.TrialLine)][1]
    # As a kill -9 in the second trial leaves it.
    (tmp_path / "r" / "journal.jsonl").write_bytes(b"".join(content[:second_trial]))
    again = measured_run(tmp_path / "r", suite, solver, wish=wish, resume=True)
    assert (again.ended.run, again.ended.started) == (first.ended.run, 1)
    assert idle_words(tmp_path / "r") == ["before", "before", "after"]
    record = records(again.ended)[0]
    assert [look.when for look in record.meter.idle or ()] == ["before", "before", "after"]
    assert all(result.energy and result.energy.total.net_uj is not None for result in record.trials)
    third = measured_run(tmp_path / "r", suite, solver, wish=wish, resume=True)
    assert third.ended.started == 0
    assert len(idle_words(tmp_path / "r")) == 3


def test_a_records_joules_are_those_of_its_readings_with_both_looks_at_rest(
    tmp_path: Path, tree: PowercapTree, daemon: Daemon
) -> None:
    """What the journal said while only the look before was known is provisional (J38, J44)."""
    suite = small_suite(tmp_path / "suite")
    with feeding(tree, 10):
        ran = measured_run(tmp_path / "r", suite, command(tmp_path, "slow", "sleep 1"), wish=Wish(socket=daemon.socket))
    record = records(ran.ended)[0]
    (result,) = record.trials
    idle = idle_from(ran.ended, record.meter)
    assert idle is not None
    assert len(idle.looks) == 2
    readings = unpack(readings_of(tmp_path / "r", result))
    again = trial_energy(window_of(readings, idle), by_kind=False, ran_on=ran_on(readings.header, result.cause))
    assert result.energy is not None
    assert again == result.energy.model_copy(update={"readings": None})
    (said,) = trial_lines(tmp_path / "r")
    assert said.energy is not None
    assert said.energy.readings == result.energy.readings
    assert said.energy.total.gross_uj == result.energy.total.gross_uj
    assert said.model_copy(update={"energy": None}) == result.model_copy(update={"energy": None})
