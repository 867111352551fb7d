"""How a run is shown while it runs: a live bar on a terminal, plain lines elsewhere; always on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from appliance.cli.output import note, printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from appliance.trials.runner import Ended


class PlainProgress:
    """One line a trial."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0

    def began(self, total: int, finished: int) -> None:
        self._total, self._done = total, finished
        if finished:
            note(f"{finished} of {total} trials are finished already")

    def ended(self, ended: Ended) -> None:
        self._done += 1
        note(f"[{self._done}/{self._total}] {said(ended)}")


class BarProgress:
    def __init__(self, progress: Progress):
        self._progress = progress
        self._bar: TaskID | None = None

    def began(self, total: int, finished: int) -> None:
        self._bar = self._progress.add_task("trials", total=total, completed=finished)

    def ended(self, ended: Ended) -> None:
        if self._bar is not None:
            # Words of tasks and solvers could hold what rich takes for markup.
            from rich.markup import escape

            self._progress.update(self._bar, advance=1, description=escape(printable(said(ended)))[:80])


@contextmanager
def shown() -> Iterator[PlainProgress | BarProgress]:
    if not sys.stderr.isatty():
        yield PlainProgress()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    progress = Progress(*columns, console=Console(stderr=True))
    progress.start()
    try:
        yield BarProgress(progress)
    finally:
        # A terminal that is gone must not hide why the run ended.
        with suppress(OSError):
            progress.stop()


def said(ended: Ended) -> str:
    key = ended.trial.key
    place = f"{ended.trial.solver.name} {key.task}"
    if ended.trial.plan.passes > 1:
        place += f" pass {key.pass_}"
    if ended.trial.plan.rollouts > 1:
        place += f" rollout {key.rollout}"
    reason = f": {ended.reason}" if ended.reason else ""
    wall = f" in {ended.wall_seconds:.2f} s" if ended.wall_seconds is not None else ""
    return f"{place} {ended.outcome}{reason}{wall}"
