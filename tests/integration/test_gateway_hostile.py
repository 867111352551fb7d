"""An agent that means harm to the harness: it harms its own trial at most."""

from __future__ import annotations

import gzip
import json
import resource
import time
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.gateway.connections import Bounds
from tests.door_bench import (
    KEY,
    agent_of,
    ask,
    cassette_of,
    drained,
    gateway_of,
    raw,
    request_of,
)
from tests.scripted_model import Say, ScriptedModel, Silence

_SMALL = Bounds(body_bytes=100_000, bodies_bytes=150_000, stalled_seconds=0.5, idle_seconds=0.5, connections=8)


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: \x00\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 100_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 20_000 + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n" * 50_000,
    ],
)
def test_what_is_no_http_is_hung_up_on_and_said(said: bytes) -> None:
    """Row M13: the next connection finds the gateway as it was."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=_SMALL) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(said)
            answer = drained(agent)
        with agent_of(door) as client:
            assert ask(client).status_code == 200
        traffic = door.finish()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4") or answer.startswith(b"HTTP/1.1 5")
    assert traffic.exchanges == 1
    assert len(traffic.faults) == 1


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_bound_is_refused_readably_whether_or_not_it_says_its_size(
    announced: bool, tmp_path: Path
) -> None:
    """Row M13: the sender is still sending when it is refused, and reads the refusal."""
    big = b"x" * 3_000_000
    bounds = replace(_SMALL, bodies_bytes=10_000_000)
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=bounds) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            if announced:
                agent.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(big) + big)
            else:
                head = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
                agent.sendall(head + b"%x\r\n" % len(big) + big + b"\r\n0\r\n\r\n")
            answer = drained(agent)
        traffic = door.finish()
        assert model.saw == []
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"request_too_large" in answer
    assert (recorded.exchange.refused, recorded.asked.body) == ("too_large", b"")


def test_a_bomb_of_a_body_is_refused_before_it_goes_off(tmp_path: Path) -> None:
    """Row M13: a few kilobytes that decode to more than the bound."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=_SMALL) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            packed = gzip.compress(b" " * 50_000_000)
            got = agent.post("/v1/messages", content=packed, headers={"content-encoding": "gzip"})
        traffic = door.finish()
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert (got.status_code, recorded.exchange.refused) == (413, "too_large")


def test_decoded_bodies_count_for_what_all_requests_may_hold(tmp_path: Path) -> None:
    """Row M13: a hundred bytes a request that are 60,000 each once they are decoded."""
    bounds = replace(_SMALL, stalled_seconds=30, idle_seconds=30)
    body = gzip.compress(b'{"model":"scripted","messages":[],"a":"%s"}' % (b"a" * 60_000))
    head = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-encoding: gzip\r\n"
    with ScriptedModel(key=KEY, always=Silence()) as model, gateway_of(model, bounds=bounds) as gateway:
        door = gateway.open("a")
        agents = []
        for number in range(2):
            agents.append(raw(door))
            agents[-1].sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            while len(model.asked) <= number:
                time.sleep(0.005)
        with raw(door) as third:
            third.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            assert drained(third).startswith(b"HTTP/1.1 413 ")
        for one in agents:
            one.close()
        while gateway.run_spent.tokens == 0:
            time.sleep(0.005)
        time.sleep(0.2)
        with agent_of(door) as agent:
            got = agent.post("/v1/count_none", content=body, headers={"content-encoding": "gzip"})
            assert got.status_code == 404
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert [one.exchange.refused for one in recorded] == [None, None, "too_large", "route"]


def test_a_body_of_too_many_parts_is_refused_before_it_is_parsed() -> None:
    """Row M13: each part of a byte is 50 of memory, and the loop of all trials stands still meanwhile."""
    body = b'{"model":"scripted","messages":[],"a":[' + b"[]," * 300_000 + b"0]}"
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        assert agent.post("/v1/messages", content=body).status_code == 413
        text = json.dumps({"model": "scripted", "messages": [], "a": "code, [" * 100_000})
        assert agent.post("/v1/messages", content=text).status_code == 200


def test_a_body_of_more_than_eight_mebibytes_is_refused() -> None:
    """Row M13: as it comes."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        body = b'{"model":"scripted","messages":[],"a":"%s"}'
        assert agent.post("/v1/messages", content=body % (b"a" * 8_000_000)).status_code == 200
        assert agent.post("/v1/messages", content=body % (b"a" * 8_500_000)).status_code == 413


def test_a_body_of_endless_empty_members_is_malformed() -> None:
    """Row M13: each of them costs a copy of all that follows it."""
    members = gzip.compress(b"") * 100_000
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        got = agent.post("/v1/messages", content=members, headers={"content-encoding": "gzip"})
        assert (got.status_code, "members" in got.text) == (400, True)


def test_requests_that_come_before_they_are_wanted_wait_and_are_answered_in_turn() -> None:
    """Pipelined: agents that speak HTTP don't, and are not harmed if they do."""
    with ScriptedModel(Say("One."), key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of() * 9 + request_of(head="connection: close\r\n"))
            answers = drained(agent)
        assert answers.count(b"HTTP/1.1 200 ") == 10
        assert len(model.asked) == 10
        assert door.finish().exchanges == 10


def test_a_request_that_never_ends_is_given_up_and_said() -> None:
    """Slowly, at its head as at its body."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=_SMALL) as gateway:
        door = gateway.open("a")
        for begun in (b"POST /v1/mess", b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 99\r\n\r\n{"):
            with raw(door) as agent:
                agent.sendall(begun)
                assert drained(agent) == b""
        with raw(door) as silent:
            assert drained(silent) == b""
        traffic = door.finish()
    assert (traffic.exchanges, traffic.faults) == (0, ("2 times: stalled before the request was whole",))


def test_more_connections_than_are_taken_wait_for_their_turn() -> None:
    """Eight are held open and idle; whoever comes after them is answered as they are given up."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=_SMALL) as gateway:
        door = gateway.open("a")
        held = [raw(door) for _ in range(60)]
        with agent_of(door) as agent:
            assert ask(agent).status_code == 200
        for one in held:
            one.close()
        assert door.finish().exchanges == 1


def test_an_agent_that_takes_nothing_holds_neither_memory_nor_the_model() -> None:
    """Row M10: the one slot of a local model is not its to keep."""
    with ScriptedModel(Say(fill_bytes=50_000_000), key=KEY) as model, gateway_of(model, bounds=_SMALL) as gateway:
        door, other = gateway.open("a"), gateway.open("b")
        with raw(door) as agent:
            agent.sendall(request_of(stream=True))
            while not model.asked:
                time.sleep(0.005)
            before = _rss()
            time.sleep(1.0)
            assert _rss() - before < 20_000_000
            with agent_of(other) as client:
                assert client.get("/").status_code == 200
        traffic = door.finish()
    assert traffic.exchanges == 1
    assert traffic.failed is None


def test_a_trial_s_exchanges_are_bounded_and_what_is_over_is_said() -> None:
    """The disk is the host's: beyond so many exchanges nothing is recorded, and nothing asked."""
    bounds = Bounds(exchanges=5)
    with ScriptedModel(key=KEY) as model, gateway_of(model, bounds=bounds) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            statuses = [agent.post("/v1/none", json={}).status_code for _ in range(5)] + [ask(agent).status_code] * 2
        traffic = door.finish()
        assert model.saw == []
    assert statuses == [404] * 5 + [429] * 2
    assert traffic.exchanges == 5
    assert any("more than is recorded" in fault for fault in traffic.faults)


def test_a_body_nested_without_end_is_malformed() -> None:
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        assert agent.post("/v1/messages", content=b'{"a":' + b"[" * 300_000).status_code == 400
        assert agent.post("/v1/messages", content=b'{"model":"\\ud800"}').status_code == 400
        assert agent.post("/v1/messages", content=b'{"model":' + b"9" * 100_000 + b"}").status_code == 400


def test_names_that_no_file_may_have_name_no_file(tmp_path: Path) -> None:
    """An agent's words stand in the cassette and nowhere on the host."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("../../etc/passwd")
        assert door.folder.parent.parent.samefile(door.folder.parent.parent.resolve())
        assert ".." not in str(door.folder)
        with raw(door) as agent:
            agent.sendall(b"GET /../../x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
            assert drained(agent).startswith(b"HTTP/1.1 404 ")
        assert door.finish().exchanges == 1


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_an_upgrade_is_not_taken_and_the_request_answered() -> None:
    """Some agents try a web socket first, and take a refusal for what it is."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, raw(gateway.open("a")) as agent:
        agent.sendall(b"GET /v1/responses HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        assert agent.recv(65536).startswith(b"HTTP/1.1 404 ")
