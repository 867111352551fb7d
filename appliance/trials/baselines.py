"""Baselines of a run: the oracle on the untouched workspace, once per task and image, shared by all solvers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from appliance.records.plan import PlannedTask
from appliance.records.trial import Baseline
from appliance.tasks.model import Task
from appliance.trials.grading.grader import baseline_digest


class Baselines:
    """Asked for by many threads; each is run once, and by whoever asks first. A failed run is tried by the next one."""

    def __init__(self, known: Iterable[Baseline], run: Callable[[PlannedTask, Task], Baseline]):
        """`known`: of an earlier start; `run` uses the engine, and has what it gives on the disk before it returns."""
        self._known = {baseline.digest: baseline for baseline in known}
        self._run = run
        self._lock = threading.Lock()
        self._running: dict[str, threading.Lock] = {}

    def of(self, planned: PlannedTask, task: Task) -> Baseline:
        key = baseline_digest(planned)
        with self._lock:
            if key in self._known:
                return self._known[key]
            mine = self._running.setdefault(key, threading.Lock())
        with mine:
            if key not in self._known:
                self._known[key] = self._run(planned, task)
            return self._known[key]
