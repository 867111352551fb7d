"""The grader's container, made while the solver still runs: nothing of the one can reach the other."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from appliance.records.plan import PlannedTask
from appliance.tasks.model import Task
from appliance.trials.grading.grader import Grader, ReadyGrader


class EarlyGrader:
    """`begin` starts a thread; `take` waits for it, or makes the container then and there. Taken or discarded once."""

    def __init__(self, grader: Grader, task: Task, planned: PlannedTask, image_ids: Mapping[str, str]):
        self._grader = grader
        self._task = task
        self._planned = planned
        self._image = image_ids[planned.images.task.config]
        self._thread: threading.Thread | None = None
        self._ready: ReadyGrader | None = None
        self._failed: BaseException | None = None

    def begin(self) -> None:
        self._thread = threading.Thread(target=self._make, name="grader", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        try:
            self._ready = self._grader.ready(self._task, self._planned, self._image)
        except BaseException as error:  # noqa: BLE001 - raised again by whoever takes it
            self._failed = error

    def take(self) -> ReadyGrader:
        """Raises what making it raised."""
        if self._thread is None:
            return self._grader.ready(self._task, self._planned, self._image)
        self._thread.join()
        taken, self._ready = self._ready, None
        if taken is None:
            raise self._failed or RuntimeError("the grader was taken already")
        return taken

    def discard(self) -> None:
        """Remove it where nobody took it."""
        if self._thread is None:
            return
        self._thread.join()
        if self._ready is not None:
            self._grader.discard(self._ready)
            self._ready = None
