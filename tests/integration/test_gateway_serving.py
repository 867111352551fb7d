"""The gateway between an agent and a provider: four wire forms, streaming and not."""

from __future__ import annotations

import gc
import gzip
import hashlib
import json
import stat
import threading
import weakref
import zlib
from pathlib import Path

import httpx2
import pytest

from appliance.gateway.exchange import WireForm
from appliance.ports import DUMMY_KEY
from tests.door_bench import (
    FORMS,
    KEY,
    agent_of,
    ask,
    body_of,
    cassette_of,
    credentials_of,
    drained,
    gateway_of,
    lines_of,
    raw,
    target_of,
)
from tests.scripted_model import Drip, Say, ScriptedModel


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_an_agent_gets_the_provider_s_bytes_and_the_cassette_too(form: WireForm, stream: bool, tmp_path: Path) -> None:
    """Rows M13, M14, M15: byte for byte what the provider says to whoever asks it directly, usage counted beside."""
    with ScriptedModel(Say("Two words."), key=KEY) as direct:
        asked = httpx2.post(
            f"{direct.url}{target_of(form, stream=stream)}",
            json=body_of(form, stream=stream),
            headers=credentials_of(form, KEY),
        )
    with ScriptedModel(Say("Two words."), key=KEY) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = ask(agent, form, stream=stream)
        traffic = door.finish()
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
        (line,) = lines_of(traffic.transcript)
    assert (got.status_code, got.content) == (200, asked.content)
    assert got.headers["content-type"] == asked.headers["content-type"]
    exchange = recorded.exchange
    assert recorded.response.read_bytes() == asked.content
    assert exchange.body_sha256 == hashlib.sha256(asked.content).hexdigest()
    assert (exchange.form, exchange.act, exchange.stream, exchange.model) == (form, "generate", stream, "scripted")
    assert exchange.complete and not exchange.cut and exchange.refused is None
    assert json.loads(exchange.asked.body) == body_of(form, stream=stream)
    assert [one.status for one in exchange.tries] == [200]
    moments = [exchange.started_ms, exchange.first_byte_ms, exchange.first_token_ms, exchange.ended_ms]
    assert None not in moments
    assert moments[0] <= moments[1] <= moments[3]  # type: ignore[operator]
    assert traffic.usage is not None
    assert (traffic.usage.input_tokens, traffic.usage.cache_read_tokens, traffic.usage.output_tokens) == (2000, 800, 37)
    assert (traffic.exchanges, traffic.failed, traffic.faults) == (1, None, ())
    assert line["spoken"]["text"] == "Two words."


@pytest.mark.parametrize("form", FORMS)
def test_the_provider_gets_the_host_s_key_in_the_place_of_the_agent_s(form: WireForm) -> None:
    """Rows M13, M16."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway, agent_of(gateway.open("a")) as agent:
        for given in FORMS:
            assert ask(agent, form, headers=credentials_of(given)).status_code == 200
        asked = model.asked
    assert len(asked) == len(FORMS)
    for seen in asked:
        assert DUMMY_KEY not in str(seen.headers) + seen.target
        assert seen.header("accept-encoding") == "identity"


def test_prices_of_the_day_make_the_cost_of_a_trial(tmp_path: Path) -> None:
    """Row M15."""
    with (
        ScriptedModel(key=KEY, model="claude-sonnet-4-5") as model,
        gateway_of(model, model="claude-sonnet-4-5") as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent:
            for _ in range(2):
                agent.post(
                    "/v1/messages",
                    json=body_of("anthropic", model="claude-sonnet-4-5"),
                    headers=credentials_of("anthropic"),
                )
        traffic = door.finish()
        spent = gateway.run_spent
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    # 1200 fresh tokens at 3 dollars a million, 800 of the cache's at 0.30, 37 out at 15.
    assert [one.exchange.cost_usd for one in recorded] == ["0.004395", "0.004395"]
    assert traffic.cost_usd == "0.00879" == spent.usd


@pytest.mark.parametrize("form", FORMS)
def test_another_model_than_the_plan_s_is_refused_in_the_form_s_shape_and_recorded(
    form: WireForm, tmp_path: Path
) -> None:
    """Row M13."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = agent.post(target_of(form, model="other"), json=body_of(form, model="other"))
        traffic = door.finish()
        (recorded,) = cassette_of(traffic.cassette, tmp_path / "c").exchanges
        assert model.saw == []
    assert got.status_code == 404
    assert "error" in got.json()
    assert (recorded.exchange.refused, recorded.exchange.model) == ("model", "other")
    assert (traffic.failed, traffic.cost_usd) == (None, "0")
    assert traffic.usage is not None and traffic.usage.input_tokens == 0


def test_what_is_no_route_and_what_is_no_request_is_refused_and_recorded(tmp_path: Path) -> None:
    """Row M13: nothing of it reaches the provider."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            statuses = [
                agent.post("/v1/files", json={}).status_code,
                agent.post("/v1/messages", content=b"not json").status_code,
                agent.post("/v1/messages", json={"messages": []}).status_code,
                agent.request("DELETE", "/v1/messages").status_code,
                agent.post("/v1/messages", content=b"{}", headers={"content-encoding": "zstd"}).status_code,
            ]
        traffic = door.finish()
        assert model.saw == []
        refused = [one.exchange.refused for one in cassette_of(traffic.cassette, tmp_path / "c").exchanges]
    assert statuses == [404, 400, 404, 404, 400]
    assert refused == ["route", "malformed", "model", "route", "malformed"]
    assert traffic.exchanges == 5


def test_the_list_of_models_is_the_plan_s_alone_and_the_place_answers() -> None:
    """Row M13: without a call to the provider."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        listed = agent.get("/v1/models").json()
        assert [one["id"] for one in listed["data"]] == ["scripted"]
        assert agent.get("/v1/models/other").status_code == 404
        head = agent.head("/v1/models")
        assert (head.status_code, head.content) == (200, b"")
        assert agent.get("/").status_code == agent.head("/").status_code == 200
        assert model.saw == []


def test_a_count_of_tokens_is_the_provider_s_and_costs_nothing() -> None:
    """Row M13."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            counted = agent.post("/v1/messages/count_tokens", json=body_of("anthropic"))
        traffic = door.finish()
    assert counted.json() == {"input_tokens": 2000}
    assert traffic.usage is not None and traffic.usage.input_tokens == 0


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity"])
def test_a_packed_request_reaches_the_provider_plain_and_the_cassette_as_it_came(coding: str, tmp_path: Path) -> None:
    """Rows M13, M14."""
    plain = json.dumps(body_of("anthropic", "packed")).encode()
    packed = {"gzip": gzip.compress(plain, mtime=0), "deflate": zlib.compress(plain), "identity": plain}[coding]
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = agent.post("/v1/messages", content=packed, headers={"content-encoding": coding})
        (seen,) = model.asked
        (recorded,) = cassette_of(door.finish().cassette, tmp_path / "c").exchanges
    assert got.status_code == 200
    assert seen.body == plain
    assert seen.header("content-encoding") is None
    assert recorded.asked.body == packed


def test_a_client_that_waits_for_100_continue_is_told_to_go_on() -> None:
    """As curl does for bodies over a MiB."""
    body = json.dumps(body_of("anthropic")).encode()
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, raw(gateway.open("a")) as agent:
        head = f"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\nexpect: 100-continue\r\n"
        agent.sendall(f"{head}connection: close\r\n\r\n".encode())
        assert agent.recv(100).startswith(b"HTTP/1.1 100 ")
        agent.sendall(body)
        assert drained(agent).startswith(b"HTTP/1.1 200 ")


def test_a_body_in_chunks_is_one_body() -> None:
    body = json.dumps(body_of("anthropic")).encode()
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway, agent_of(gateway.open("a")) as agent:
        got = agent.post("/v1/messages", content=iter([body[:7], body[7:9], body[9:]]))
        assert got.status_code == 200
        assert model.asked[0].body == body


def test_both_connections_are_kept_between_exchanges() -> None:
    """Figures: nothing is opened anew for an exchange, neither here nor at the provider."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            body = json.dumps(body_of("anthropic")).encode()
            request = b"POST /v1/messages HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            for _ in range(3):
                agent.sendall(request)
                head, _, rest = agent.recv(65536).partition(b"\r\n\r\n")
                length = int(dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:])[b"content-length"])
                while len(rest) < length:
                    rest += agent.recv(65536)
                assert json.loads(rest)["type"] == "message"
        assert len({seen.connection for seen in model.asked}) == 1


def test_no_collection_while_it_serves_goes_through_what_stood_before() -> None:
    """Figures: all that a large program holds takes tens of milliseconds, in the middle of an exchange."""

    class Standing:
        """Dead in a cycle as soon as nothing else holds it."""

        def __init__(self) -> None:
            self.me = self

    standing = Standing()
    seen = weakref.ref(standing)
    with ScriptedModel(key=KEY) as model, gateway_of(model):
        del standing
        gc.collect()
        assert seen() is not None
    gc.collect()
    assert seen() is None


def test_exchanges_at_the_same_time_are_numbered_as_they_arrive_and_mixed_up_by_nobody(tmp_path: Path) -> None:
    """Rows M13, M14."""
    answers: dict[str, str] = {}

    def one(number: int) -> None:
        with agent_of(door) as agent:
            answers[str(number)] = ask(agent, text=f"number {number}", stream=number % 2 == 0).text

    with ScriptedModel(Say("Together."), key=KEY, always=Drip(0.002, 64)) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert [one.told.order for one in recorded] == list(range(12))
    started = [one.exchange.started_ms for one in recorded]
    assert started == sorted(started)
    for one_recorded in recorded:
        said = json.loads(one_recorded.asked.body)["messages"][0]["content"]
        assert one_recorded.response.read_text() == answers[said.removeprefix("number ")]
    assert traffic.usage is not None and traffic.usage.output_tokens == 12 * 37


def test_each_trial_has_a_socket_of_its_own_that_only_its_folder_leads_to() -> None:
    """Row M19: 0666 in a folder of 0755, which lies in one of 0700; a trial's exchanges are its own."""
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        first, second = gateway.open("a"), gateway.open("b")
        assert first.folder != second.folder
        home = first.folder.parent
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE(first.folder.stat().st_mode) == 0o755
        assert stat.S_IMODE((first.folder / "gateway.sock").stat().st_mode) == 0o666
        assert [path.name for path in first.folder.iterdir()] == ["gateway.sock"]
        with agent_of(first) as agent:
            ask(agent)
        assert (first.finish().exchanges, second.finish().exchanges) == (1, 0)
    assert not home.exists()


def test_a_socket_may_lie_deeper_than_its_name_is_long(tmp_path: Path) -> None:
    """Where caches lie below a home, the path passes what a Unix socket's name can hold."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with ScriptedModel(key=KEY) as model, gateway_of(model, folder=deep) as gateway:
        door = gateway.open("a")
        assert len(str(door.folder / "gateway.sock")) > 108
        with agent_of(door) as agent:
            assert agent.get("/").status_code == 200


def test_nothing_asked_leaves_no_cassette() -> None:
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        traffic = gateway.open("a").finish()
    assert (traffic.exchanges, traffic.cassette, traffic.transcript, traffic.cost_usd) == (0, None, None, "0")
