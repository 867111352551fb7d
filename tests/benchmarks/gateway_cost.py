"""What gateway and forwarder add to an exchange, what they hold while 50 MB pass, and how fast these pass.

`python -m tests.benchmarks.gateway_cost [PAIRS]`. Agent, forwarder, gateway and server are four programs; where an
engine answers, agent and forwarder run in containers as in a trial, and once more as plain programs. Each exchange over
the road is followed by one straight to the server, so that both see the same machine. Nothing here passes or fails.
"""

from __future__ import annotations

import contextlib
import gc
import json
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.gateway import forwarder
from appliance.gateway.doors import SOCKET, Door
from appliance.gateway.exchange import WireForm
from appliance.gateway.serving import ModelGateway
from appliance.gateway.upstreams.provider import provider_upstream
from tests.door_bench import FORMS, body_of, target_of
from tests.scripted_model import Say, ScriptedModel

_PAIRS = 300
_WARM = 20
_BIG = 50_000_000
_CLIENT = Path(__file__).with_name("gateway_client.py")
_TEXT = "One of the tests fails because the last line has no newline: I'll look at how the file is read and mend that."
"""Some twenty events of a stream, which the server sends in one go."""


@dataclass(frozen=True)
class Took:
    first_ms: float
    last_ms: float
    size: int


class Agent:
    """A client that asks when it is told to."""

    def __init__(self, argv: list[str]):
        self._program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, form: WireForm, stream: bool) -> Took:
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(f"{target_of(form, stream=stream)}\t{json.dumps(body_of(form, stream=stream))}\n")
        self._program.stdin.flush()
        first, last, size = (int(word) for word in self._program.stdout.readline().split())
        return Took(first / 1e6, last / 1e6, size)

    def end(self) -> None:
        self._program.kill()
        self._program.communicate()


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        _serve(int(sys.argv[2]))
        return
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else _PAIRS
    with _server(0) as small, _server(_BIG) as big:
        for name, road in (("in containers", _contained), ("as plain programs", _plain)):
            with _gateway(small) as door:
                print(f"\nadded to an exchange on a kept connection, agent and forwarder {name}; ms, {pairs} pairs")
                with contextlib.ExitStack() as stack:
                    through = _or_why(stack, road, door)
                    if through is None:
                        continue
                    latency(stack.enter_context(_direct(small)), through, pairs)
            with _gateway(big) as door, contextlib.ExitStack() as stack:
                through = _or_why(stack, road, door)
                if through is not None:
                    passing(stack.enter_context(_direct(big)), through)


def latency(direct: Agent, through: Agent, pairs: int) -> None:
    print(f"{'':<28}  {'direct p50':>10}  {'through p50':>11}  {'added p50':>9}  {'added p99':>9}  direct p99 - p50")
    for stream in (False, True):
        for form in FORMS:
            both = [(direct.ask(form, stream), through.ask(form, stream)) for _ in range(pairs + _WARM)][_WARM:]
            firsts = [(one.first_ms, other.first_ms) for one, other in both]
            lasts = [(one.last_ms, other.last_ms) for one, other in both]
            for what, times in (("first byte", firsts), ("last byte", lasts)) if stream else (("whole", lasts),):
                _row(f"{form}, {what}", times)


def _row(name: str, times: list[tuple[float, float]]) -> None:
    """The p99 that is added: of what is through less what is direct, each of its own distribution."""
    direct, through = (statistics.quantiles(one, n=100) for one in zip(*times, strict=True))
    print(
        f"{name:<28}  {direct[49]:>10.2f}  {through[49]:>11.2f}  {through[49] - direct[49]:>9.2f}"
        f"  {through[98] - direct[98]:>9.2f}  {direct[98] - direct[49]:>16.2f}",
        flush=True,
    )


def passing(direct: Agent, through: Agent) -> None:
    print(f"\n{_BIG // 1_000_000} MB in one answer: memory of the gateway's program over what it had before, and speed")
    print(f"{'':<28}  {'MiB over idle':>13}  {'through MB/s':>12}  {'direct MB/s':>11}")
    for stream in (False, True):
        through.ask("anthropic", stream)
        for form in FORMS:
            idle = _rss_mib()
            with _peak() as peak:
                took = through.ask(form, stream)
            straight = direct.ask(form, stream)
            assert took.size == straight.size
            speeds = (took.size / took.last_ms / 1000, straight.size / straight.last_ms / 1000)
            name = f"{form}, {'streamed' if stream else 'whole'}"
            print(f"{name:<28}  {max(peak) - idle:>13.1f}  {speeds[0]:>12.0f}  {speeds[1]:>11.0f}", flush=True)


# ----------------------------------------------------------------------------------------------- what is measured


def _serve(fill: int) -> None:
    with ScriptedModel(Say(_TEXT, fill_bytes=fill)) as model:
        gc.collect()
        gc.freeze()  # as the gateway does: the server's own pauses are nobody's to add
        print(model.port, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def _server(fill: int) -> Iterator[int]:
    argv = [sys.executable, "-m", "tests.benchmarks.gateway_cost", "--serve", str(fill)]
    program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    try:
        yield int(program.stdout.readline())
    finally:
        program.kill()
        program.communicate()


@contextlib.contextmanager
def _gateway(port: int) -> Iterator[Door]:
    upstream = provider_upstream("compatible", url=f"http://127.0.0.1:{port}")
    with ModelGateway(upstream, model="scripted", provider="compatible") as gateway:
        yield gateway.open("benchmark")


@contextlib.contextmanager
def _direct(port: int) -> Iterator[Agent]:
    agent = Agent([sys.executable, "-I", "-S", str(_CLIENT), str(port)])
    yield agent
    agent.end()


@contextlib.contextmanager
def _plain(door: Door) -> Iterator[Agent]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    argv = [sys.executable, "-I", "-S", forwarder.__file__, "--port", port, "--socket", str(door.folder / SOCKET)]
    program = subprocess.Popen(argv)
    try:
        assert door.wait_ready(30)
        agent = Agent([sys.executable, "-I", "-S", str(_CLIENT), port])
        yield agent
        agent.end()
    finally:
        program.kill()
        program.wait()


@contextlib.contextmanager
def _contained(door: Door) -> Iterator[Agent]:
    from appliance.engine.docker import connect
    from appliance.ports import GATEWAY_PORT, RUN_LABEL, Mount
    from appliance.trials.sidecar import Sidecar
    from tests.engine_bench import base_image, container, new_run

    engine = connect()
    run = new_run("benchmark")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for program in (_CLIENT, Path(forwarder.__file__)):
            shutil.copy(program, folder / program.name)
            (folder / program.name).chmod(0o644)
        with container(engine, mounts=(Mount("bind", name, "/workspace", read_only=True),), run=run) as solver:
            sidecar = Sidecar(engine, door, folder)
            try:
                sidecar.start(solver, base_image(engine), {RUN_LABEL: run}, None)
                inside = ["python3", "-I", "-S", f"/workspace/{_CLIENT.name}", str(GATEWAY_PORT)]
                agent = Agent(["docker", "exec", "-i", solver, *inside])
                yield agent
                agent.end()
            finally:
                sidecar.remove()


def _or_why(
    stack: contextlib.ExitStack, road: type[contextlib.AbstractContextManager[Agent]], door: Door
) -> Agent | None:
    from appliance.errors import HostRefused

    try:
        return stack.enter_context(road(door))
    except HostRefused as refused:
        print(f"not taken: {refused}")
        return None


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


@contextlib.contextmanager
def _peak() -> Iterator[list[float]]:
    """Looked at every five milliseconds."""
    seen, over = [_rss_mib()], threading.Event()

    def look() -> None:
        while not over.wait(0.005):
            seen.append(_rss_mib())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
