"""Budgets in tokens, dollars and exchanges, of a trial and of a run, where they are spent."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from appliance.gateway.budget import Budget, Spent
from appliance.gateway.exchange import WireForm
from tests.door_bench import FORMS, KEY, agent_of, ask, body_of, cassette_of, credentials_of, drained, gateway_of, raw
from tests.scripted_model import ScriptedModel, Silence, Status


@pytest.mark.parametrize("form", FORMS)
def test_over_the_trial_s_budget_the_agent_meets_a_rate_limit_and_the_provider_nothing(
    form: WireForm, tmp_path: Path
) -> None:
    """Row M15: in the provider's own shape; the next trial has its own budget."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, form, trial_budget=Budget(exchanges=2)) as gateway:
        door, other = gateway.open("a"), gateway.open("b")
        with agent_of(door) as agent:
            got = [ask(agent, form, stream=number == 2) for number in range(3)]
        assert len(model.asked) == 2
        with agent_of(other) as agent:
            assert ask(agent, form).status_code == 200
        assert not gateway.spent
        traffic = door.finish()
        recorded = cassette_of(traffic.cassette, tmp_path / "c").exchanges
    assert [one.status_code for one in got] == [200, 200, 429]
    assert "error" in got[2].json()
    assert [one.exchange.refused for one in recorded] == [None, None, "budget"]
    assert (traffic.over_budget, traffic.failed, traffic.exchanges, traffic.answered) == ("trial", None, 3, 2)


def test_tokens_are_counted_before_the_next_request_is_let_through() -> None:
    """Row M15: 2037 an exchange."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, trial_budget=Budget(tokens=2038)) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert [ask(agent, stream=True).status_code for _ in range(3)] == [200, 200, 429]
        assert door.finish().over_budget == "trial"


def test_dollars_are_counted_by_the_prices_of_the_day() -> None:
    """Row M15: 0.004395 an exchange."""
    name = "claude-sonnet-4-5"
    with (
        ScriptedModel(key=KEY, model=name) as model,
        gateway_of(model, model=name, trial_budget=Budget(usd="0.008")) as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent:
            body, headers = body_of("anthropic", model=name), credentials_of("anthropic")
            statuses = [agent.post("/v1/messages", json=body, headers=headers).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
        assert door.finish().cost_usd == "0.00879"


def test_over_the_run_s_budget_every_trial_is_refused_and_the_run_is_spent(tmp_path: Path) -> None:
    """Row M15: what has not begun is excluded by whoever asks `spent`."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, run_budget=Budget(exchanges=2)) as gateway:
        first, second = gateway.open("a"), gateway.open("b")
        with agent_of(first) as one, agent_of(second) as other:
            assert ask(one).status_code == 200
            assert not gateway.spent
            assert ask(other).status_code == 200
            assert gateway.spent
            assert ask(one).status_code == ask(other).status_code == 429
        traffic = first.finish()
        refused = [one.exchange.refused for one in cassette_of(traffic.cassette, tmp_path / "c").exchanges]
    assert refused == [None, "run_budget"]
    assert traffic.over_budget == "run"


def test_a_resumed_run_goes_on_with_what_is_left() -> None:
    """Row M15."""
    with (
        ScriptedModel(key=KEY) as model,
        gateway_of(model, run_budget=Budget(exchanges=5), already=Spent(exchanges=4)) as gateway,
    ):
        with agent_of(gateway.open("a")) as agent:
            assert [ask(agent).status_code for _ in range(2)] == [200, 429]
        assert gateway.run_spent.exchanges == 5


def test_an_answer_that_does_not_say_its_tokens_counts_by_its_bytes() -> None:
    """Row M15: what is unknown is unknown in the record, and passes no budget."""
    with ScriptedModel(key=KEY, tokens=None) as model, gateway_of(model, trial_budget=Budget(tokens=100)) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert [ask(agent).status_code for _ in range(2)] == [200, 429]
        traffic = door.finish()
    assert (traffic.usage, traffic.cost_usd) == (None, None)
    assert any("no usage" in fault for fault in traffic.faults)


def test_no_more_exchanges_are_let_through_at_the_same_time_than_one_after_the_other() -> None:
    """Row M15: of twenty requests at once."""
    statuses: list[int] = []

    def one() -> None:
        with agent_of(door) as agent:
            statuses.append(ask(agent).status_code)

    with ScriptedModel(key=KEY) as model, gateway_of(model, trial_budget=Budget(exchanges=3)) as gateway:
        door = gateway.open("a")
        threads = [threading.Thread(target=one) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(model.asked) == 3
    assert sorted(statuses) == [200] * 3 + [429] * 17


def test_the_budget_is_looked_at_before_every_try() -> None:
    """Row M17: while one exchange waits to be tried again, another uses up what was left."""
    name = "claude-sonnet-4-5"
    with (
        ScriptedModel(key=KEY, model=name, faults=[Status(429, retry_after="1")]) as model,
        gateway_of(model, model=name, trial_budget=Budget(tokens=1)) as gateway,
    ):
        door = gateway.open("a")
        waited: list[int] = []

        def ask_it() -> int:
            with agent_of(door) as agent:
                body = body_of("anthropic", model=name)
                return agent.post("/v1/messages", json=body, headers=credentials_of("anthropic")).status_code

        thread = threading.Thread(target=lambda: waited.append(ask_it()))
        thread.start()
        while not model.asked or model.asked[0].answered is None:
            pass
        assert ask_it() == 200
        thread.join()
        assert waited == [429]
        assert len(model.asked) == 2
        traffic = door.finish()
    assert (traffic.over_budget, traffic.failed) == ("trial", None)


_SONNET = "claude-sonnet-4-5"


def _asks(text: str) -> bytes:
    body = json.dumps(body_of("anthropic", text, model=_SONNET)).encode()
    head = f"POST /v1/messages HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_an_agent_that_hangs_up_before_the_first_byte_is_charged_for_what_it_asked(tmp_path: Path) -> None:
    """Rows M15, M4: the provider had the request; what it used nobody knows, which is not zero."""
    with (
        ScriptedModel(key=KEY, model=_SONNET, always=Silence()) as model,
        gateway_of(model, model=_SONNET, trial_budget=Budget(usd="0.05")) as gateway,
    ):
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(_asks("word " * 20_000))
            while not model.asked:
                time.sleep(0.005)
        deadline = time.monotonic() + 20
        while gateway.run_spent.tokens == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        with raw(door) as agent:
            agent.sendall(_asks("again"))
            assert drained(agent).startswith(b"HTTP/1.1 429 ")
        traffic = door.finish()
        left, refused = (one.exchange for one in cassette_of(traffic.cassette, tmp_path / "c").exchanges)
    assert gateway.run_spent.tokens > 100_000
    assert (left.status, left.usage, refused.refused) == (499, None, "budget")
    assert (traffic.usage, traffic.cost_usd) == (None, None)
    assert any("exchange 0: no usage" in fault for fault in traffic.faults)


@pytest.mark.parametrize(("budget", "whose"), [({"usd": "0.001"}, "trial"), ({"tokens": 1000}, "run")])
def test_however_many_ask_at_once_a_budget_is_passed_by_one_request_at_most(budget: dict[str, Any], whose: str) -> None:
    """Row M15: the others wait for it, and are refused."""
    bound: dict[str, Any] = {f"{whose}_budget": Budget(**budget)}
    with (
        ScriptedModel(key=KEY, model=_SONNET, always=Silence(0.3)) as model,
        gateway_of(model, model=_SONNET, **bound) as gateway,
    ):
        doors = [gateway.open("a"), gateway.open("b")] if whose == "run" else [gateway.open("a")]
        agents = [raw(door) for door in doors * 16]
        for agent in agents:
            agent.sendall(_asks("word " * 600))
        statuses = [drained(agent)[9:12] for agent in agents]
        for agent in agents:
            agent.close()
        assert len(model.asked) == 1
        assert gateway.run_spent.tokens == 2037
    assert sorted(statuses) == [b"200"] + [b"429"] * (len(agents) - 1)


def test_within_a_budget_requests_go_at_the_same_time() -> None:
    """Row M15: what is held for them fits."""
    with (
        ScriptedModel(key=KEY, model=_SONNET, always=Silence(1.0)) as model,
        gateway_of(model, model=_SONNET, trial_budget=Budget(tokens=10_000, usd="1")) as gateway,
    ):
        door = gateway.open("a")
        agents = [raw(door) for _ in range(4)]
        for agent in agents:
            agent.sendall(_asks("Hello."))
        deadline = time.monotonic() + 30
        while len(model.asked) < 4 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert [one.answered for one in model.asked] == [None] * 4
        assert [drained(agent)[9:12] for agent in agents] == [b"200"] * 4
        for agent in agents:
            agent.close()
