"""The forwarder: a program of its own, from 127.0.0.1 to a gateway's socket."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

from appliance.gateway import forwarder
from appliance.gateway.doors import Door
from tests.door_bench import KEY, ask, body_of, cassette_of, gateway_of, request_of
from tests.scripted_model import Say, ScriptedModel, Silence

_PROGRAM = Path(forwarder.__file__)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def forwarded(path: Path, *, descriptors: int | None = None) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """A forwarder to `path`, with at most so many open files."""
    port = free_port()
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_PROGRAM), "--port", str(port), "--socket", str(path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    if descriptors is not None:
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
    try:
        yield port, program
    finally:
        program.kill()
        program.communicate()


@contextmanager
def road(door: Door, **more: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    with forwarded(door.folder / "gateway.sock", **more) as (port, program):
        assert door.wait_ready(30)
        yield port, program


def _rss_kib(program: subprocess.Popen[str]) -> int:
    lines = Path(f"/proc/{program.pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def test_the_gateway_knows_that_the_road_is_open_and_the_forwarder_that_its_gateway_is_gone() -> None:
    """Row M19: readiness is heard before any request; the end of the door ends the program."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        assert not door.wait_ready(0)
        with road(door) as (port, program):
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as agent:
                assert ask(agent).status_code == 200
                assert ask(agent, stream=True).status_code == 200
            assert program.poll() is None
            traffic = door.finish()
            assert program.wait(30) == 0
    assert traffic.exchanges == 2


def test_without_a_gateway_it_ends_and_says_so(tmp_path: Path) -> None:
    """Row M19."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "x.sock"))
    listener.listen(1)
    with forwarded(tmp_path / "x.sock") as (_, program):
        accepted, _ = listener.accept()
        accepted.sendall(b"HTTP/1.1 500 no\r\n\r\n")
        assert program.wait(30) == 1
        assert program.stderr is not None and "no gateway" in program.stderr.read()
    listener.close()


def test_bytes_pass_unchanged_however_many_and_memory_stays_flat(tmp_path: Path) -> None:
    """Figures: 50 MB, streamed and not, hold no more than its buffers."""
    with ScriptedModel(Say(fill_bytes=50_000_000), key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with road(door) as (port, program), httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as agent:
            sums = []
            rss = _rss_kib(program)
            for stream in (False, True):
                digest = hashlib.sha256()
                with agent.stream("POST", "/v1/messages", json=body_of("anthropic", stream=stream)) as got:
                    for piece in got.iter_raw():
                        digest.update(piece)
                sums.append(digest.hexdigest())
                assert _rss_kib(program) - rss < 4096
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert [one.told.response.sha256 for one in recorded] == sums
    assert all(one.told.response.bytes > 50_000_000 and one.told.complete for one in recorded)


_ALONE = """
import sys
from pathlib import Path
from appliance.gateway.serving import ModelGateway
from appliance.gateway.upstreams.provider import provider_upstream

def memory(of):
    return int(next(line.split()[1] for line in Path("/proc/self/status").open() if line.startswith(of)))

upstream = provider_upstream("compatible", url=sys.argv[1])
with ModelGateway(upstream, model="scripted", provider="compatible") as gateway:
    door = gateway.open("a")
    print(door.folder, flush=True)
    for _ in sys.stdin:
        print(memory("VmRSS"), memory("VmHWM"), flush=True)
        Path("/proc/self/clear_refs").write_text("5")
    door.finish()
"""


def test_the_gateway_s_memory_stays_flat_while_fifty_megabytes_pass() -> None:
    """Figures: streamed and not, in its own program; what is recorded lies on the disk."""
    with ScriptedModel(Say(fill_bytes=50_000_000)) as model:
        program = subprocess.Popen(
            [sys.executable, "-c", _ALONE, model.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert program.stdin is not None and program.stdout is not None

        def looked() -> tuple[int, int]:
            """KiB held now, and at most since the last look."""
            program.stdin.write("\n")  # type: ignore[union-attr]
            program.stdin.flush()  # type: ignore[union-attr]
            now, most = program.stdout.readline().split()  # type: ignore[union-attr]
            return int(now), int(most)

        transport = httpx2.HTTPTransport(uds=f"{program.stdout.readline().strip()}/gateway.sock")
        with httpx2.Client(transport=transport, base_url="http://gateway", timeout=120) as agent:
            agent.post("/v1/messages/count_tokens", json=body_of("anthropic"))
            agent.post("/v1/messages", content=b"no json")
            idle, _ = looked()
            for stream in (False, True):
                with agent.stream("POST", "/v1/messages", json=body_of("anthropic", stream=stream)) as got:
                    size = sum(len(piece) for piece in got.iter_raw())
                assert size > 50_000_000
            time.sleep(1)
            _, most = looked()
        program.stdin.close()
        assert program.wait(30) == 0
    assert most - idle < 16 * 1024


def test_a_reader_that_stops_stops_the_sender_and_not_the_forwarder() -> None:
    """Figures: what nobody takes is not taken in."""
    with ScriptedModel(Say(fill_bytes=50_000_000), key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with road(door) as (port, program):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            body = '{"model":"scripted","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"x"}]}'
            before = _rss_kib(program)
            connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            time.sleep(1)
            assert _rss_kib(program) - before < 4096
            assert len(answer.read()) > 50_000_000
            connection.close()
        assert door.finish().answered == 1


def test_a_half_that_is_closed_is_closed_at_the_other_end_and_the_other_half_lives(tmp_path: Path) -> None:
    """Row M19: both ways."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "x.sock"))
    listener.listen(9)
    with forwarded(tmp_path / "x.sock") as (port, _):
        lifeline, _ = listener.accept()
        lifeline.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        for first, second in ((True, False), (False, True)):
            here = _connected(port)
            there, _ = listener.accept()
            ends = (here, there) if first and not second else (there, here)
            ends[0].sendall(b"asked")
            ends[0].shutdown(socket.SHUT_WR)
            assert _all(ends[1]) == b"asked"
            ends[1].sendall(b"answered")
            ends[1].shutdown(socket.SHUT_WR)
            assert _all(ends[0]) == b"answered"
            here.close()
            there.close()
        lifeline.close()
    listener.close()


def test_a_flood_of_connections_is_taken_in_turn_and_leaves_it_as_it_was() -> None:
    """Row M19: more of them than it may have open files, idle and reset."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with road(door, descriptors=64) as (port, program):
            flood = []
            for number in range(400):
                one = socket.socket()
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
                flood.append(one)
                if number % 3 == 0:
                    with_reset = (1).to_bytes(4, sys.byteorder) + (0).to_bytes(4, sys.byteorder)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, with_reset)
                    one.close()
            time.sleep(0.5)
            assert program.poll() is None
            for one in flood:
                one.close()
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as agent:
                assert ask(agent).status_code == 200
            open_files = len(list(Path(f"/proc/{program.pid}/fd").iterdir()))
            assert open_files < 20
        assert door.finish().answered == 1


def test_what_is_pushed_and_taken_by_nobody_fills_its_buffers_and_no_more() -> None:
    """Row M19: on every connection that it takes; 128 MiB is all that it has in its container."""
    with ScriptedModel(key=KEY, always=Silence()) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with road(door) as (port, program):
            before = _rss_kib(program)
            pushing = [_connected(port) for _ in range(64)]
            for one in pushing:
                one.sendall(request_of())
                one.setblocking(False)
            pushed = 0
            for _ in range(20):
                for one in pushing:
                    with suppress(BlockingIOError):
                        while True:
                            pushed += one.send(b"x" * 65536)
                time.sleep(0.05)
            assert pushed > 10_000_000
            assert _rss_kib(program) - before < 40 * 1024
            for one in pushing:
                one.close()
            assert program.poll() is None
        door.finish()


def test_many_agents_at_once_each_get_their_own(tmp_path: Path) -> None:
    """Row M13."""
    failed: list[BaseException] = []

    def one(port: int) -> None:
        try:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as agent:
                for _ in range(5):
                    assert ask(agent, stream=True).status_code == 200
        except BaseException as error:
            failed.append(error)
            raise

    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with road(door) as (port, _):
            threads = [threading.Thread(target=one, args=(port,)) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert failed == []
        assert door.finish().answered == 80


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def _all(end: socket.socket) -> bytes:
    end.settimeout(30)
    found = b""
    while chunk := end.recv(4096):
        found += chunk
    return found


def test_no_small_packet_waits_for_an_acknowledgement(tmp_path: Path) -> None:
    """Row M19: with Nagle's algorithm every exchange on a kept connection takes 44 ms more."""

    async def relayed() -> int:
        gateway = await asyncio.start_unix_server(lambda _reader, _writer: None, tmp_path / "x.sock")
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
            client, _ = listener.accept()
            client.setblocking(False)
            carrying = asyncio.create_task(forwarder.relay(client, str(tmp_path / "x.sock")))
            await asyncio.sleep(0.1)
            found = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            carrying.cancel()
            gateway.close()
        return found

    assert asyncio.run(relayed()) != 0
