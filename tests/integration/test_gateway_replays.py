"""A recorded trial in the model's place: no provider, no key."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from appliance.errors import InputRefused
from appliance.gateway.budget import Budget
from appliance.gateway.doors import Door
from appliance.gateway.exchange import WireForm
from appliance.ports import Traffic
from tests.door_bench import FORMS, KEY, agent_of, ask, cassette_of, gateway_of, raw, request_of
from tests.scripted_model import Cut, Say, ScriptedModel, Silence, Status

JSON = {"content-type": "application/json"}


def _recorded(tmp_path: Path, model: ScriptedModel, form: WireForm, asks: int, **more: object) -> tuple[Path, Traffic]:
    """A cassette of so many exchanges, each of a text of its own, streamed."""
    with gateway_of(model, form, **more) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            for number in range(asks):
                try:
                    ask(agent, form, f"number {number}", stream=True)
                except httpx2.RemoteProtocolError:
                    continue
        traffic = door.finish()
        assert traffic.cassette is not None
        return traffic.cassette.rename(tmp_path / "cassette.tar.gz"), traffic


@contextmanager
def _replayed(cassette: Path, form: WireForm, **more: object) -> Iterator[tuple[Door, httpx2.Client]]:
    with gateway_of(None, form, **more) as gateway:
        door = gateway.open("again", replay=cassette)
        with agent_of(door) as agent:
            yield door, agent


@pytest.mark.parametrize("form", FORMS)
def test_a_replay_gives_the_recorded_bytes_usage_and_cost_without_a_provider(form: WireForm, tmp_path: Path) -> None:
    """Rows M13, M14."""
    with ScriptedModel(Say("Again."), key=KEY) as model:
        cassette, before = _recorded(tmp_path, model, form, 3)
    recorded = cassette_of(cassette, tmp_path / "before").exchanges
    with _replayed(cassette, form) as (door, agent):
        got = [ask(agent, form, f"number {number}", stream=True) for number in (2, 0, 1)]
        traffic = door.finish()
        again = cassette_of(traffic.cassette, tmp_path / "after")
    assert [one.content for one in got] == [recorded[number].response.read_bytes() for number in (2, 0, 1)]
    assert [one.told.replay_of for one in again.exchanges] == [2, 0, 1]
    assert (traffic.replay_level, traffic.unused, traffic.failed) == ("exact", 0, None)
    assert (traffic.usage, traffic.cost_usd, traffic.answered) == (before.usage, before.cost_usd, 3)


def test_a_request_that_was_not_recorded_ends_the_replay_with_the_difference(tmp_path: Path) -> None:
    """Row M14: refused in the form's own shape; what nobody asked for is counted."""
    with ScriptedModel(key=KEY) as model:
        cassette, _ = _recorded(tmp_path, model, "anthropic", 2)
    with _replayed(cassette, "anthropic") as (door, agent):
        assert ask(agent, text="number 0", stream=True).status_code == 200
        got = ask(agent, text="something else", stream=True)
        traffic = door.finish()
        (_, refused) = cassette_of(traffic.cassette, tmp_path / "after").exchanges
    assert got.status_code == 400
    assert (traffic.failed, traffic.unused) == ("replay_diverged", 1)
    assert "something else" in (traffic.divergence or "") and "number 1" in (traffic.divergence or "")
    assert refused.exchange.refused == "diverged"


def test_a_break_alone_is_judged_again_as_it_was(tmp_path: Path) -> None:
    """Rows M14, M17."""
    with ScriptedModel(Say("word " * 99), key=KEY, faults=[Cut(2)]) as model:
        cassette, before = _recorded(tmp_path, model, "anthropic", 2)
    with _replayed(cassette, "anthropic") as (door, agent):
        with pytest.raises(httpx2.RemoteProtocolError):
            ask(agent, text="number 0", stream=True)
        assert ask(agent, text="number 1", stream=True).status_code == 200
        traffic = door.finish()
    assert traffic.failed == before.failed == "provider_failed"


@pytest.mark.parametrize("events", [0, 2])
@pytest.mark.parametrize("waits", [True, False])
def test_what_an_agent_left_is_held_open_until_it_is_left_again(events: int, waits: bool, tmp_path: Path) -> None:
    """Rows M14, J9: a trial that its limit ended in mid-answer meets its limit again, and no hang-up to retry after."""
    silent = Silence(after_events=events)
    with ScriptedModel(Say("word " * 99), key=KEY, always=silent) as model, gateway_of(model) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of(stream=True))
            while not model.asked:
                time.sleep(0.005)
            told = agent.recv(65536) if events else b""
            time.sleep(0.3)
            before = door.finish()
        assert before.cassette is not None
        cassette = before.cassette.rename(tmp_path / "cassette.tar.gz")
    with gateway_of(None) as gateway:
        door = gateway.open("again", replay=cassette)
        with raw(door) as agent:
            agent.settimeout(1.0)
            agent.sendall(request_of(stream=True))
            assert (agent.recv(65536)[:15] if told else b"") == told[:15]
            with pytest.raises(TimeoutError):
                while agent.recv(65536):
                    pass
            if waits:
                traffic = door.finish()
                assert agent.recv(65536) == b""
        if not waits:
            traffic = door.finish()
        (again,) = cassette_of(traffic.cassette, tmp_path / "after").exchanges
    assert (traffic.failed, traffic.divergence, traffic.unused) == (None, None, 0)
    assert traffic.usage == before.usage
    assert events or traffic.usage is None
    assert again.exchange.cut


def test_a_break_is_replayed_as_a_break_and_an_outage_as_an_outage(tmp_path: Path) -> None:
    """Rows M14, M17: what the agent saw then it sees again, and the trial is judged as it was."""
    with ScriptedModel(Say("word " * 99), key=KEY, faults=[Cut(2), *[Status(503)] * 3]) as model:
        cassette, before = _recorded(tmp_path, model, "openai-chat", 2)
    assert before.failed == "provider_failed"
    first = cassette_of(cassette, tmp_path / "before").exchanges[0]
    with _replayed(cassette, "openai-chat") as (door, agent):
        got = b""
        request = agent.build_request("POST", "/v1/chat/completions", content=first.asked.body, headers=JSON)
        with pytest.raises(httpx2.RemoteProtocolError):
            for piece in agent.send(request, stream=True).iter_raw():
                got += piece
        assert got == first.response.read_bytes()
        assert ask(agent, "openai-chat", "number 1", stream=True).status_code == 503
        traffic = door.finish()
        again = [one.exchange for one in cassette_of(traffic.cassette, tmp_path / "after").exchanges]
    assert [one.cut for one in again] == [True, False]
    assert [one.refused for one in again] == [None, "provider"]
    assert (traffic.failed, traffic.usage) == (before.failed, before.usage)


def test_a_refusal_by_budget_is_replayed_whatever_the_budget_is_now(tmp_path: Path) -> None:
    """Rows M14, M15: the cause of the trial's end is the same again."""
    with ScriptedModel(key=KEY) as model:
        cassette, before = _recorded(tmp_path, model, "gemini", 2, trial_budget=Budget(exchanges=1))
    with _replayed(cassette, "gemini", trial_budget=Budget(exchanges=0)) as (door, agent):
        assert [ask(agent, "gemini", f"number {number}", stream=True).status_code for number in range(2)] == [200, 429]
        traffic = door.finish()
    assert (traffic.over_budget, traffic.exchanges) == (before.over_budget, before.exchanges) == ("trial", 2)


def test_what_the_gateway_says_by_itself_needs_no_recording(tmp_path: Path) -> None:
    """Row M14: lists, the place, another model; none of it diverges."""
    with ScriptedModel(key=KEY) as model:
        cassette, _ = _recorded(tmp_path, model, "anthropic", 1)
    with _replayed(cassette, "anthropic") as (door, agent):
        assert agent.get("/v1/models").status_code == 200
        assert agent.head("/").status_code == 200
        assert agent.post("/v1/messages", json={"model": "other", "messages": []}).status_code == 404
        assert ask(agent, text="number 0", stream=True).status_code == 200
        assert door.finish().failed is None


def test_a_file_that_is_no_cassette_opens_no_door(tmp_path: Path) -> None:
    """Row M14: in words, before anything is started."""
    (tmp_path / "no.tar.gz").write_bytes(b"no")
    with gateway_of(None) as gateway, pytest.raises(InputRefused, match=r"no\.tar\.gz"):
        gateway.open("a", replay=tmp_path / "no.tar.gz")


def test_a_trial_leaves_its_record_alone_on_the_disk(tmp_path: Path) -> None:
    """A run of a thousand trials stays as small as its cassettes."""
    with ScriptedModel(key=KEY) as model:
        cassette, _ = _recorded(tmp_path, model, "anthropic", 1)
    home = tmp_path / "home"
    home.mkdir()
    with gateway_of(None, folder=home) as gateway:
        for trial in ("a", "b"):
            door = gateway.open(trial, replay=cassette)
            with agent_of(door) as agent:
                ask(agent, text="number 0", stream=True)
            door.finish()
        left = sorted(str(path.relative_to(home).name) for path in home.rglob("*") if path.is_file())
        assert left == ["cassette.tar.gz", "cassette.tar.gz", "transcript.jsonl", "transcript.jsonl"]
    assert list(home.iterdir()) == []
