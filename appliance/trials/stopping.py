"""Asking a run to stop, and what must be let go when it is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from appliance.errors import Refusal
from appliance.pins import Pin
from appliance.ports import ContainerSpec, Engine, Evidence, ExecOutcome, ExecSpec, InForce
from appliance.records.record import EngineStamp
from appliance.tasks.model import Limits


class Interrupted(BaseException):
    """The run was told to stop while this trial was in flight. Not an Exception: no phase may take it for a failure."""


class RunStopped(Refusal):
    """The run ended before its plan was done; everything it made is gone, what had finished is kept."""

    def __init__(self, message: str, *, status: int, mend: str | None = None, hurried: bool = False):
        """`hurried`: somebody asked twice; what is left is the reaper's, however long the engine takes to answer."""
        super().__init__(message, mend=mend)
        self.hurried = hurried
        self.status = status  # type: ignore[misc]  # 130, 143 or the class's own: known only when it happens


class Stop:
    """Set once, from any thread; containers in flight are removed so that whoever waits for them returns."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._lock = threading.Lock()
        self._in_flight: dict[str, None] = {}
        """In the order they were made."""
        self._remove: Callable[[str], None] = lambda _container: None

    def asked(self) -> bool:
        return self._asked.is_set()

    def check(self) -> None:
        """Raises Interrupted once the run was told to stop."""
        if self._asked.is_set():
            raise Interrupted

    def watch(self, engine: Engine) -> Engine:
        """The same engine, whose containers are known here: none is made once the run was told to stop."""
        self._remove = engine.remove
        return _Watched(engine, self)

    def began(self, container: str) -> None:
        with self._lock:
            self._in_flight[container] = None
        if self._asked.is_set():
            self._remove(container)
            raise Interrupted

    def is_in_flight(self, container: str) -> bool:
        with self._lock:
            return container in self._in_flight

    def ended(self, container: str) -> None:
        with self._lock:
            self._in_flight.pop(container, None)

    def ask(self) -> None:
        self._asked.set()
        with self._lock:
            # The last first: one that shares another's network goes before it.
            containers = [*reversed(self._in_flight)]
        for container in containers:
            self._remove(container)


class _Watched:
    """An Engine; see `Stop.watch`."""

    def __init__(self, engine: Engine, stop: Stop):
        self._engine = engine
        self._stop = stop

    def create(self, spec: ContainerSpec) -> str:
        self._stop.check()
        container = self._engine.create(spec)
        self._stop.began(container)
        return container

    def remove(self, container: str) -> None:
        if self._stop.is_in_flight(container):
            self._engine.remove(container)
            self._stop.ended(container)

    def stamp(self) -> EngineStamp:
        return self._engine.stamp()

    def resolve(self, pin: Pin) -> str | None:
        return self._engine.resolve(pin)

    def load(self, archive: Path) -> None:
        self._engine.load(archive)

    def export(self, image: str, archive: Path) -> None:
        self._engine.export(image, archive)

    def start(self, container: str) -> None:
        self._engine.start(container)

    def in_force(self, container: str, asked: Limits) -> InForce:
        return self._engine.in_force(container, asked)

    def execute(self, container: str, spec: ExecSpec, on_started: Callable[[], None] | None = None) -> ExecOutcome:
        return self._engine.execute(container, spec, on_started)

    def evidence(self, container: str) -> Evidence:
        return self._engine.evidence(container)

    def put_tree(self, container: str, target: str, tar: Iterable[bytes]) -> None:
        self._engine.put_tree(container, target, tar)

    def processes(self, container: str) -> int:
        return self._engine.processes(container)


@contextmanager
def signals(on_signal: Callable[[int, int], None]) -> Iterator[None]:
    """Ctrl-C, SIGTERM and a terminal that hangs up call `on_signal(number, how often)`; outside the main thread they
    keep their meaning, and a hang-up that was ignored (`nohup`) stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    count = 0

    def caught(number: int, _frame: FrameType | None) -> None:
        nonlocal count
        count += 1
        on_signal(number, count)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, caught) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
