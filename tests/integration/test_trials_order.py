"""What happens around a solver's exec, in which order, on a real engine and a real meter that are listened to."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.records.plan import PlannedEnergy
from appliance.solvers.definition import SolverDefinition
from appliance.solvers.finding import find_solver
from appliance.trials.adapters import this_machine
from appliance.trials.session import RunOptions, run_plans
from appliance.trials.stamps import Subject
from tests.trials_bench import Watched, plans_for
from tests.trials_suites import command, small_suite

pytestmark = pytest.mark.docker


class Heard:
    """Passes every call on, and writes its name down; of execs also what was executed."""

    def __init__(self, real: Any, name: str, log: list[str], lock: threading.Lock):
        self._real, self._name, self._log, self._lock = real, name, log, lock

    def __getattr__(self, call: str) -> Any:
        found = getattr(self._real, call)
        if not callable(found):
            return found

        def heard(*words: Any, **named: Any) -> Any:
            what = f" {words[1].argv[0]}" if call == "execute" else f" {words[0].role}" if call == "create" else ""
            with self._lock:
                self._log.append(f"{self._name}.{call}{what}")
            given = found(*words, **named)
            return Heard(given, "window", self._log, self._lock) if call == "prepare" else given

        return heard


def heard_run(
    tmp_path: Path, scheduling: str, jobs: int, *tasks: str, solver: SolverDefinition | None = None
) -> list[str]:
    energy = PlannedEnergy(mode="auto", active_watts=None, scheduling=scheduling)  # type: ignore[arg-type]
    suite = small_suite(tmp_path / "suite", *tasks)
    chosen = solver or find_solver("reference")
    plans = plans_for(suite, chosen, energy=energy)
    here = this_machine(plans, lambda _words: None)
    log: list[str] = []
    lock = threading.Lock()
    run_plans(
        plans,
        suite,
        solvers={chosen.name: chosen},
        adapters=replace(
            here, engine=Heard(here.engine, "engine", log, lock), meter=Heard(here.meter, "meter", log, lock)
        ),
        out=tmp_path / "run",
        options=RunOptions(subjects={chosen.name: Subject(None, None, "unknown")}, jobs=jobs),
        watcher=Watched(),
    )
    return log


def test_the_window_holds_the_solvers_exec_and_nothing_else(tmp_path: Path) -> None:
    """Baseline before, seed and start before, kill and grade after; opened right before the exec and closed at its
    exit, for a reading after the container's end comes too late (J08, J43, C5); the cgroups let go once the container
    is gone (formats 5).
    """
    log = heard_run(tmp_path, "exclusive", 1, "a")
    opened = log.index("window.open")
    assert log[opened : opened + 3] == ["window.open", "engine.execute cp", "window.close"]
    before, after = log[:opened], log[opened + 3 :]
    assert before.index("engine.execute sh") < before.index("meter.prepare") < before.index("engine.create solver")
    assert before[-3:] == ["engine.create solver", "engine.start", "engine.in_force"]
    assert after[:4] == ["engine.evidence", "engine.remove", "engine.processes", "window.release"]
    assert after.index("window.release") < after.index("engine.create harness") < after.index("engine.execute sh")


def test_in_exclusive_scheduling_nothing_happens_in_an_open_window(tmp_path: Path) -> None:
    """Whatever the jobs (design 8): every window holds exactly its exec."""
    log = heard_run(tmp_path, "exclusive", 2, "a", "b", "c")
    opens = [at for at, entry in enumerate(log) if entry == "window.open"]
    assert len(opens) == 3
    for at in opens:
        assert log[at + 1 : at + 3] == ["engine.execute cp", "window.close"]


def test_in_shared_scheduling_the_grader_is_made_while_the_solver_runs(tmp_path: Path) -> None:
    """Its container is asked for before the solver's is removed (issue 3: speed)."""
    log = heard_run(tmp_path, "shared", 1, "a", solver=command(tmp_path, "slow", "sleep 2"))
    solved = log.index("engine.create solver")
    assert log.index("engine.create harness", solved) < log.index("engine.processes")
