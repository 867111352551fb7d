"""Many trials on a few threads: what comes next, what stops it, and who is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from appliance.errors import MeterRefused
from appliance.records.journal import InterruptedLine, TrialLine
from appliance.records.trial import TrialResult
from appliance.records.words import Outcome, Reason
from appliance.trials.attempt import attempt
from appliance.trials.bench import Bench, Trial
from appliance.trials.outcomes import FailureWatch, worth_another_try
from appliance.trials.stopping import Interrupted, Stop


@dataclass(frozen=True)
class Ended:
    """A trial whose line is on the disk."""

    trial: Trial
    outcome: Outcome
    reason: Reason | None
    detail: str | None
    wall_seconds: float | None
    lost: str | None = None
    """Why counters that were there gave no joules of it."""


class Watcher(Protocol):
    """Whoever shows progress; called from the main thread, one call at a time."""

    def began(self, total: int, finished: int) -> None: ...

    def ended(self, ended: Ended) -> None: ...


@dataclass(frozen=True)
class Tally:
    """How a sweep over trials ended: by itself, by signal number `signal`, `failing` (the third failure's words), or
    because the meter is gone."""

    again: tuple[Trial, ...]
    """Worth another try, in their order."""
    signal: int | None
    failing: str | None
    hurried: bool = False
    """A second signal came: trials may still be at work."""
    refused: MeterRefused | None = None

    @property
    def ended(self) -> bool:
        """It came to its end by itself."""
        return self.signal is None and self.failing is None and self.refused is None


@dataclass(frozen=True)
class _Signalled:
    number: int
    count: int


class Signalled(Interrupted):
    """The run was told to stop between its sweeps."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


@dataclass(frozen=True)
class _Broken:
    error: BaseException


class Runner:
    def __init__(
        self,
        bench: Bench,
        write: Callable[[TrialLine | InterruptedLine], None],
        watcher: Watcher,
        jobs: int,
        report: Callable[[str], None] = lambda _words: None,
    ):
        """`write` returns once the line is on the disk; `report` is told what a watcher's one line does not hold."""
        self._bench = bench
        self._write = write
        self._watcher = watcher
        self._jobs = jobs
        self._report = report
        self._events: SimpleQueue[Ended | _Signalled | _Broken | None] = SimpleQueue()

    def on_signal(self, number: int, count: int) -> None:
        """For the signal handler: no lock is taken here that the main thread might hold."""
        self._events.put(_Signalled(number, count))

    def pause(self, seconds: float) -> None:
        """Let time go by between sweeps, on the main thread. Raises `Signalled`."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            try:
                event = self._events.get(timeout=left)
            except Empty:
                return
            if isinstance(event, _Signalled):
                raise Signalled(event.number)

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
                if event.lost is not None:
                    trial = event.trial
                    self._report(f"the joules of {trial.solver.name} {trial.key.task} are lost: {event.lost}")
                if worth_another_try(event.outcome, event.reason):
                    again.append(event.trial)
        return Tally(tuple(sorted(again, key=lambda trial: trial.index)), number, queue.failing, hurried, queue.refused)

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
                    lost = _lost(found) if self._bench.meter.counts else None
                    self._events.put(Ended(trial, found.outcome, found.reason, found.detail, found.wall_seconds, lost))
        except MeterRefused as refusal:
            # The others end what they are at: their meter's word is in their lines already.
            queue.refuse(refusal)
        except BaseException as error:  # noqa: BLE001 - carried to the main thread, which raises it
            self._events.put(_Broken(error))
        finally:
            self._events.put(None)


def _lost(result: TrialResult) -> str | None:
    """A net that only waits for the machine's rest is not lost: its gross was read."""
    near = (result.energy.local or result.energy.total) if result.energy else None
    return near.missing if near is not None and near.gross_uj is None else None


class _Shared:
    """One iterator for many threads; it ends early once too much has failed."""

    def __init__(self, trials: Iterable[Trial]):
        self._trials = iter(trials)
        self._lock = threading.Lock()
        self._watch = FailureWatch()
        self.failing: str | None = None
        self.refused: MeterRefused | None = None

    def refuse(self, refusal: MeterRefused) -> None:
        with self._lock:
            self.refused = self.refused or refusal

    def saw(self, outcome: Outcome, reason: Reason | None, detail: str | None) -> None:
        with self._lock:
            if self._watch.saw(outcome, reason) and self.failing is None:
                self.failing = detail or str(reason)

    def __iter__(self) -> Iterator[Trial]:
        while True:
            with self._lock:
                trial = None if self.failing or self.refused else next(self._trials, None)
            if trial is None:
                return
            yield trial


def _stop_soon(stop: Stop) -> None:
    """Removing containers takes a while; a second signal must not wait for it."""
    threading.Thread(target=stop.ask, name="stop", daemon=True).start()
