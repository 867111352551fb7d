"""Providers that fail, agents that leave, trials that end: what is tried again, and whose failure it is."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest

from appliance.gateway.exchange import Exchange, WireForm
from appliance.gateway.retries import RetryPolicy
from appliance.gateway.upstreams.provider import provider_upstream
from appliance.ports import Traffic
from tests.door_bench import (
    FORMS,
    KEY,
    agent_of,
    ask,
    body_of,
    cassette_of,
    gateway_of,
    provider_of,
    raw,
    request_of,
)
from tests.scripted_model import Cut, Html, Reset, Say, ScriptedModel, Silence, Status


def _recorded(traffic: Traffic, into: Path) -> list[Exchange]:
    return [one.exchange for one in cassette_of(traffic.cassette, into / "cassette").exchanges]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_comes_back_is_asked_again_and_the_agent_sees_one_answer(
    form: WireForm, stream: bool, tmp_path: Path
) -> None:
    """Row M17: each try is recorded."""
    faults = [Status(529), Reset()]
    with ScriptedModel(key=KEY, faults=faults) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent, form, stream=stream).status_code == 200
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert [one.status for one in exchange.tries] == [529, None, 200]
    assert "connection broke" in (exchange.tries[1].error or "")
    assert exchange.complete and traffic.failed is None
    assert all(one.started_ms <= one.ended_ms for one in exchange.tries)
    assert traffic.usage is not None and traffic.usage.input_tokens == 2000


def test_the_provider_says_how_long_to_wait(tmp_path: Path) -> None:
    """Row M17: the time between two tries is at least what `retry-after` says."""
    policy = RetryPolicy(tries=3, first_wait_seconds=0.001)
    with (
        ScriptedModel(key=KEY, faults=[Status(429, retry_after="1")]) as model,
        gateway_of(model, policy=policy) as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent).status_code == 200
        (exchange,) = _recorded(door.finish(), tmp_path)
    assert exchange.tries[1].started_ms - exchange.tries[0].ended_ms >= 1000


@pytest.mark.parametrize("form", FORMS)
def test_after_the_last_try_the_agent_gets_the_provider_s_own_last_answer(form: WireForm, tmp_path: Path) -> None:
    """Row M17: and the trial's provider has failed."""
    with ScriptedModel(key=KEY, always=Status(503)) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = ask(agent, form)
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
        assert len(model.asked) == 3
    assert got.status_code == 503
    assert "scripted 503" in got.text
    assert (exchange.refused, len(exchange.tries), exchange.usage) == ("provider", 3, None)
    assert traffic.failed == "provider_failed"
    assert "503" in (traffic.detail or "")
    assert traffic.usage is not None and traffic.usage.input_tokens == 0


@pytest.mark.parametrize("form", FORMS)
def test_where_there_was_no_answer_at_all_the_agent_is_told_of_an_overload(form: WireForm, tmp_path: Path) -> None:
    """Row M17."""
    with ScriptedModel(key=KEY) as model:
        upstream = provider_of(model, form)
    with gateway_of(model, form, upstream=upstream) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = ask(agent, form)
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert got.status_code in {503, 529}
    assert [one.status for one in exchange.tries] == [None] * 3
    assert traffic.failed == "provider_failed"
    assert "no connection" in (traffic.detail or "")


def test_a_provider_that_says_nothing_is_given_up_on(tmp_path: Path) -> None:
    """Row M17: after its bound of silence, and asked again."""
    with (
        ScriptedModel(key=KEY, faults=[Silence()]) as model,
        gateway_of(model, upstream=provider_of(model, silence_seconds=0.2)) as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent, stream=True).status_code == 200
        (exchange,) = _recorded(door.finish(), tmp_path)
    assert [one.error for one in exchange.tries] == ["silent for 0.2 s", None]


def test_a_stream_that_does_not_begin_is_given_up_on_sooner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Row M17: its head comes before its answer is made; what does not stream may take its time."""
    monkeypatch.setattr("appliance.gateway.upstreams.http.HEAD_SECONDS", 0.2)
    with ScriptedModel(key=KEY, faults=[Silence(1.0), Silence(1.0)]) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert [ask(agent, stream=stream).status_code for stream in (True, False)] == [200, 200]
        streamed, whole = _recorded(door.finish(), tmp_path)
    assert [one.error for one in streamed.tries] == ["silent for 0.2 s", "silent for 0.2 s", None][
        -len(streamed.tries) :
    ]
    assert [one.error for one in whole.tries] == [None]


@pytest.mark.parametrize("fault", [Cut(2), Reset(after_bytes=200), Silence(60, after_events=2)])
@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_breaks_is_passed_on_broken_and_not_tried_again(
    form: WireForm, fault: Cut | Reset | Silence, tmp_path: Path
) -> None:
    """Row M17: recorded incomplete; the agent sees that it was not all, and the provider has failed."""
    with (
        ScriptedModel(Say("word " * 200), key=KEY, faults=[fault]) as model,
        gateway_of(model, form, upstream=provider_of(model, form, silence_seconds=0.5)) as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent, pytest.raises(httpx2.RemoteProtocolError):
            ask(agent, form, stream=True)
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
        assert len(model.asked) == 1
    assert (exchange.status, exchange.complete, exchange.cut) == (200, False, True)
    assert exchange.body_bytes > 0
    assert traffic.failed == "provider_failed"


def test_an_agent_that_asks_again_and_is_answered_had_no_outage(tmp_path: Path) -> None:
    """Row M17: by itself, also without streaming and for fewer tokens, as agents fall back."""
    with ScriptedModel(Say("word " * 200), key=KEY, faults=[Cut(2)]) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            with pytest.raises(httpx2.RemoteProtocolError):
                ask(agent, stream=True)
            again = body_of("anthropic") | {"max_tokens": 8}
            assert agent.post("/v1/messages", json=again).status_code == 200
        traffic = door.finish()
    assert traffic.failed is None


def test_another_request_s_answer_makes_no_outage_good() -> None:
    """Row M17: a title that was found after the work had failed is no work."""
    with ScriptedModel(key=KEY, faults=[Status(500)] * 3) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent, text="the work").status_code == 500
            assert ask(agent, text="a title").status_code == 200
        traffic = door.finish()
    assert traffic.failed == "provider_failed"
    assert (traffic.detail or "").startswith("exchange 0:")


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_key_or_a_model_that_the_provider_refuses_is_no_failure_of_the_agent(status: int) -> None:
    """Row M17: not tried again, for it would be the same."""
    with ScriptedModel(key=KEY, always=Status(status)) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent).status_code == status
        assert len(model.asked) == 1
        assert door.finish().failed == "provider_failed"


def test_a_request_that_the_provider_finds_wrong_is_the_agent_s_own(tmp_path: Path) -> None:
    """Row M17: 400 is passed on as it is."""
    with ScriptedModel(key=KEY, faults=[Status(400)]) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent).status_code == 400
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert (traffic.failed, exchange.refused, exchange.status) == (None, None, 400)


def test_a_page_in_an_answer_s_place_is_no_answer(tmp_path: Path) -> None:
    """Row M17: somebody's proxy asks for a login, with status 200."""
    with ScriptedModel(key=KEY, always=Html()) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            ask(agent)
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert (exchange.complete, exchange.usage) == (False, None)
    assert (traffic.failed, traffic.usage) == ("provider_failed", None)


def test_an_agent_that_hangs_up_ends_the_provider_s_work_and_is_recorded(tmp_path: Path) -> None:
    """Row M14: with what had come by then, at once, though the provider says nothing; leaving is the agent's doing."""
    with ScriptedModel(key=KEY, always=Silence(after_events=2)) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with (
            agent_of(door) as agent,
            agent.stream("POST", "/v1/messages", json=body_of("anthropic", stream=True)) as response,
        ):
            next(response.iter_raw())
            # Both events have come: there is nothing more to be written that would fail.
            time.sleep(0.5)
        deadline = time.monotonic() + 20
        while gateway.run_spent.tokens == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert gateway.run_spent.tokens > 0
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert (exchange.status, exchange.complete, exchange.cut) == (200, False, True)
    assert exchange.body_bytes > 0
    assert (traffic.failed, traffic.exchanges) == (None, 1)


class _Lingering(BaseHTTPRequestHandler):
    """Its stream is at its protocol's end long before its transfer is."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        usage = {"input_tokens": 3, "output_tokens": 2}
        for event in (
            {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ):
            said = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
        self.server.gone.wait(60)  # type: ignore[attr-defined]

    def log_message(self, *_: object) -> None:
        pass


def test_an_agent_that_hangs_up_once_it_has_read_the_end_has_its_whole_answer(tmp_path: Path) -> None:
    """Row M15: as several clients do; nothing is missing, neither usage nor bytes."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Lingering)
    server.gone = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    upstream = provider_upstream(
        "anthropic", url=f"http://127.0.0.1:{server.server_address[1]}", environment={"ANTHROPIC_API_KEY": KEY}
    )
    with gateway_of(None, upstream=upstream) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of(stream=True))
            read = b""
            while b"message_stop" not in read:
                read += agent.recv(65536)
        deadline = time.monotonic() + 20
        while gateway.run_spent.tokens == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    server.gone.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    assert (exchange.complete, exchange.cut) == (True, False)
    assert (traffic.answered, traffic.failed) == (1, None)
    assert traffic.usage is not None and traffic.usage.input_tokens == 3


def test_an_exchange_in_flight_ends_with_its_trial(tmp_path: Path) -> None:
    """Row M14: recorded incomplete, whether it was waited for, streamed or being retried."""
    with ScriptedModel(key=KEY, always=Silence()) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of())
            while not model.asked:
                time.sleep(0.005)
            traffic = door.finish()
            assert agent.recv(10) == b""
        (exchange,) = _recorded(traffic, tmp_path)
        assert not door.folder.exists()
    assert (exchange.status, exchange.complete, exchange.body_bytes) == (499, False, 0)
    assert traffic.failed is None


def test_a_trial_that_ends_while_the_provider_is_down_ended_by_its_outage(tmp_path: Path) -> None:
    """Row M17: an agent that was killed by its limit in the middle of our tries is not unresolved."""
    policy = RetryPolicy(tries=9, first_wait_seconds=30)
    with ScriptedModel(key=KEY, always=Status(503)) as model, gateway_of(model, policy=policy) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of())
            while not model.asked or model.asked[0].answered is None:
                time.sleep(0.005)
            time.sleep(0.2)
            traffic = door.finish()
        (exchange,) = _recorded(traffic, tmp_path)
    assert [one.status for one in exchange.tries] == [503]
    assert traffic.failed == "provider_failed"


def test_a_trial_that_nobody_finishes_is_left_behind_nowhere() -> None:
    """The run is interrupted: the gateway's end is the end of its doors."""
    before = threading.active_count()
    with ScriptedModel(key=KEY, always=Silence()) as model:
        with gateway_of(model) as gateway:
            door = gateway.open("a")
            agent = raw(door)
            agent.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n")
        with pytest.raises(OSError):
            socket.socket(socket.AF_UNIX).connect(str(door.folder / "gateway.sock"))
        agent.close()
    deadline = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
