"""One exec: its stream in, its stream out, and the moment that its own process ended (rows H18, H19, I18)."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from appliance.engine.capture import Demultiplexer, StreamCapture
from appliance.engine.cgroups import pid_is_in
from appliance.engine.hijack import Wire
from appliance.ports import EngineFailed, ExecOutcome, ExecSpec

_LOOK_AFTER_SECONDS = 0.05
"""A short exec has ended before this; only a longer one is worth a look at its pid."""
_POLL_SECONDS = 0.5
"""Between looks where no pid can be watched (a remote engine)."""
_DRAIN_SECONDS = 0.1
"""How long the output may be silent, once the process has ended, before it counts as all there is."""
_DRAIN_LIMIT_SECONDS = 0.5
"""A process left behind may write for ever: after this its output is cut off."""
_SETTLE_SECONDS = 10.0
"""How long the engine may take to notice an exit: Docker waits 2 s for whoever else holds the output open."""
_NOT_STARTED = frozenset({126, 127, 255})
"""What engines answer for a program that could not be started, with pid 0."""


@dataclass(frozen=True)
class ExecState:
    """What the engine says of an exec. `pid` is 0 for one that never started."""

    running: bool
    exit: int | None
    pid: int


class ExecCalls(Protocol):
    """The calls that an exec needs of the engine."""

    def exec_create(self, container: str, spec: ExecSpec) -> str: ...

    def exec_start(self, execution: str) -> Wire: ...

    def exec_state(self, execution: str) -> ExecState: ...


class Execution:
    """One run of `ExecSpec` in a container; used once."""

    def __init__(self, calls: ExecCalls, container: str, spec: ExecSpec, *, local: bool):
        """`local`: the engine's pids mean something on this machine."""
        self._calls = calls
        self._container = container
        self._spec = spec
        self._local = local
        self._spools = _spools(spec.spool)
        self._stdout, self._stderr = (StreamCapture(spec.capture_bytes, spool) for spool in self._spools)

    def run(self, on_started: Callable[[], None] | None = None) -> ExecOutcome:
        """To its exit or its limit; past the limit it still runs, and the caller kills the container."""
        try:
            return self._run(on_started)
        finally:
            for spool in self._spools:
                if spool is not None:
                    os.close(spool)

    def _run(self, on_started: Callable[[], None] | None) -> ExecOutcome:
        execution = self._calls.exec_create(self._container, self._spec)
        wire = self._calls.exec_start(execution)
        began = time.monotonic()
        try:
            if on_started is not None:
                on_started()
            deadline = None if self._spec.timeout_seconds is None else began + self._spec.timeout_seconds
            ended_at = _Pump(
                wire,
                Demultiplexer({1: self._stdout, 2: self._stderr}),
                self._spec.stdin,
                deadline,
                lambda: self._look(execution),
            ).run()
        except OSError as error:
            raise EngineFailed(f"the exec's stream broke: {error}") from error
        finally:
            wire.close()
        if ended_at is None:
            return self._outcome(None, time.monotonic() - began, timed_out=True)
        return self._ended(execution, ended_at - began)

    def _ended(self, execution: str, wall: float) -> ExecOutcome:
        deadline = time.monotonic() + _SETTLE_SECONDS
        state = self._calls.exec_state(execution)
        while state.running or state.exit is None:
            if time.monotonic() > deadline:
                raise EngineFailed("the exec's process has ended, and the engine does not say how")
            time.sleep(0.005)
            state = self._calls.exec_state(execution)
        return self._outcome(state.exit, wall, start_error=self._start_error(state))

    def _start_error(self, state: ExecState) -> str | None:
        """Docker names no pid of what never started, podman none of what has ended: the runtime's words decide."""
        if state.pid or state.exit not in _NOT_STARTED:
            return None
        said = (self._stdout.captured().kept + self._stderr.captured().kept).decode(errors="backslashreplace")
        return " ".join(said.split())[:1000] if "exec failed" in said else None

    def _outcome(
        self, status: int | None, wall: float, *, timed_out: bool = False, start_error: str | None = None
    ) -> ExecOutcome:
        return ExecOutcome(status, timed_out, self._stdout.captured(), self._stderr.captured(), wall, start_error)

    def _look(self, execution: str) -> tuple[int | None, bool]:
        """A pidfd of the exec's process where it can be watched from here, and whether it has ended already."""
        state = self._calls.exec_state(execution)
        if not state.running:
            return None, state.exit is not None
        if not self._local or not state.pid:
            return None, False
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(state.pid)
            if pid_is_in(state.pid, self._container):
                return pidfd, False
            os.close(pidfd)
        return None, False


def _spools(path: Path | None) -> tuple[int | None, int | None]:
    if path is None:
        return None, None
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    opened: list[int | None] = []
    for name in ("stdout", "stderr"):
        try:
            opened.append(os.open(f"{path}.{name}", flags, 0o644))
        except OSError:  # as on a full disk: whoever keeps the whole will say so
            opened.append(None)
    return opened[0], opened[1]


class _Pump:
    """Moves bytes until the stream ends, the process has ended and its output is silent, or the deadline comes.

    A process that the solver left behind may hold the output open for ever, so the end of the stream is not enough:
    the exec's own process is watched by a pidfd, or by asking the engine now and then.
    """

    def __init__(
        self,
        wire: Wire,
        frames: Demultiplexer,
        stdin: bytes | None,
        deadline: float | None,
        look: Callable[[], tuple[int | None, bool]],
    ):
        self._wire = wire
        self._frames = frames
        self._unsent = memoryview(stdin or b"")
        self._deadline = deadline
        self._look = look
        self._look_at = time.monotonic() + _LOOK_AFTER_SECONDS
        self._pidfd: int | None = None
        self._ended_at: float | None = None
        self._silent_since = 0.0
        self._poll = select.poll()
        if stdin is not None and not stdin:
            wire.close_input()

    def run(self) -> float | None:
        """The moment of the end on the monotonic clock; None where the deadline came first."""
        self._frames.feed(self._wire.early)
        self._poll.register(self._wire, select.POLLIN | (select.POLLOUT if self._unsent else 0))
        try:
            while True:
                now = time.monotonic()
                if self._ended_at is None and self._deadline is not None and now >= self._deadline:
                    return None
                if self._ended_at is not None and now >= self._drained_at(self._ended_at):
                    return self._ended_at
                if self._step(now):
                    return self._ended_at or time.monotonic()
        finally:
            if self._pidfd is not None:
                os.close(self._pidfd)

    def _drained_at(self, ended_at: float) -> float:
        return min(self._silent_since + _DRAIN_SECONDS, ended_at + _DRAIN_LIMIT_SECONDS)

    def _wake_at(self) -> float | None:
        if self._ended_at is not None:
            return self._drained_at(self._ended_at)
        moments = [self._deadline] if self._deadline is not None else []
        return min([*moments, self._look_at] if self._pidfd is None else moments, default=None)

    def _step(self, now: float) -> bool:
        """True at the end of the stream."""
        wake = self._wake_at()
        # Rounded up: waking early would spin for the rest of the millisecond.
        wait = None if wake is None else max(0.0, wake - now) * 1000 + 1
        ready = dict(self._poll.poll(0 if self._wire.pending() else wait))
        events = ready.get(self._wire.fileno(), 0)
        if self._unsent and events & (select.POLLOUT | select.POLLERR):
            self._unsent = self._wire.send(self._unsent)
            if not self._unsent:
                self._poll.modify(self._wire, select.POLLIN)
        if events & (select.POLLIN | select.POLLHUP | select.POLLERR) or self._wire.pending():
            chunk = self._wire.receive()
            if chunk == b"":
                return True
            if chunk:
                self._frames.feed(chunk)
                self._silent_since = time.monotonic()
        if self._ended_at is None:
            self._watch(ready)
        return False

    def _watch(self, ready: dict[int, int]) -> None:
        if self._pidfd is not None:
            if self._pidfd in ready:
                self._poll.unregister(self._pidfd)
                self._note_end()
        elif time.monotonic() >= self._look_at:
            self._pidfd, ended = self._look()
            if self._pidfd is not None:
                self._poll.register(self._pidfd, select.POLLIN)
            elif ended:
                self._note_end()
            self._look_at = time.monotonic() + _POLL_SECONDS

    def _note_end(self) -> None:
        self._ended_at = self._silent_since = time.monotonic()
