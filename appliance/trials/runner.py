"""Many trials on a few threads: what comes next, what stops it, and who is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from appliance.records.journal import InterruptedLine, TrialLine
from appliance.records.words import Outcome, Reason
from appliance.trials.attempt import Bench, Trial, attempt
from appliance.trials.outcomes import FailureWatch, worth_another_try
from appliance.trials.stopping import Stop


@dataclass(frozen=True)
class Ended:
    """A trial whose line is on the disk."""

    trial: Trial
    outcome: Outcome
    reason: Reason | None
    detail: str | None
    wall_seconds: float | None


class Watcher(Protocol):
    """Whoever shows progress; called from the main thread, one call at a time."""

    def began(self, total: int, finished: int) -> None: ...

    def ended(self, ended: Ended) -> None: ...


@dataclass(frozen=True)
class Tally:
    """How a sweep over trials ended: by itself, by signal number `signal`, or `failing` (the third failure's words)."""

    again: tuple[Trial, ...]
    """Worth another try, in their order."""
    signal: int | None
    failing: str | None
    hurried: bool = False
    """A second signal came: trials may still be at work."""

    @property
    def ended(self) -> bool:
        """It came to its end by itself."""
        return self.signal is None and self.failing is None


@dataclass(frozen=True)
class _Signalled:
    number: int
    count: int


@dataclass(frozen=True)
class _Broken:
    error: BaseException


class Runner:
    def __init__(self, bench: Bench, write: Callable[[TrialLine | InterruptedLine], None], watcher: Watcher, jobs: int):
        """`write` returns once the line is on the disk."""
        self._bench = bench
        self._write = write
        self._watcher = watcher
        self._jobs = jobs
        self._events: SimpleQueue[Ended | _Signalled | _Broken | None] = SimpleQueue()

    def on_signal(self, number: int, count: int) -> None:
        """For the signal handler: no lock is taken here that the main thread might hold."""
        self._events.put(_Signalled(number, count))

    def run(self, trials: Iterable[Trial]) -> Tally:
        """Results are written as they come, not kept. A second signal returns at once, with threads still at work."""
        queue = _Shared(trials)
        threads = [
            threading.Thread(target=self._work, args=(queue,), name=f"trials-{number}", daemon=True)
            for number in range(self._jobs)
        ]
        for thread in threads:
            thread.start()
        again: list[Trial] = []
        number: int | None = None
        hurried = False
        left = len(threads)
        while left:
            event = self._events.get()
            if event is None:
                left -= 1
            elif isinstance(event, _Broken):
                _stop_soon(self._bench.stop)
                raise event.error
            elif isinstance(event, _Signalled):
                if number is not None:
                    hurried = True
                    break
                number = event.number
                _stop_soon(self._bench.stop)
            else:
                self._watcher.ended(event)
                if worth_another_try(event.outcome, event.reason):
                    again.append(event.trial)
        return Tally(tuple(sorted(again, key=lambda trial: trial.index)), number, queue.failing, hurried)

    def _work(self, queue: _Shared) -> None:
        try:
            for trial in queue:
                if self._bench.stop.asked():
                    break
                line = attempt(trial, self._bench)
                self._write(line)
                self._bench.folder.landed(trial.name)
                if isinstance(line, TrialLine):
                    found = line.result
                    queue.saw(found.outcome, found.reason, found.detail)
                    self._events.put(Ended(trial, found.outcome, found.reason, found.detail, found.wall_seconds))
        except BaseException as error:  # noqa: BLE001 - carried to the main thread, which raises it
            self._events.put(_Broken(error))
        finally:
            self._events.put(None)


class _Shared:
    """One iterator for many threads; it ends early once too much has failed."""

    def __init__(self, trials: Iterable[Trial]):
        self._trials = iter(trials)
        self._lock = threading.Lock()
        self._watch = FailureWatch()
        self.failing: str | None = None

    def saw(self, outcome: Outcome, reason: Reason | None, detail: str | None) -> None:
        with self._lock:
            if self._watch.saw(outcome, reason) and self.failing is None:
                self.failing = detail or str(reason)

    def __iter__(self) -> Iterator[Trial]:
        while True:
            with self._lock:
                trial = None if self.failing else next(self._trials, None)
            if trial is None:
                return
            yield trial


def _stop_soon(stop: Stop) -> None:
    """Removing containers takes a while; a second signal must not wait for it."""
    threading.Thread(target=stop.ask, name="stop", daemon=True).start()
