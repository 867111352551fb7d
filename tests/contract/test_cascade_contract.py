"""What every cascade keeps: the reference server and a stub that shares no code with it, over HTTP and the socket."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance import schemas
from appliance.solvers.cascade.links import Cascade, CascadeFailed, HttpCascade, SocketCascade
from appliance.solvers.cascade.messages import Answer, Resolve, Warm
from appliance.solvers.cascade.rules import read_rules
from appliance.solvers.cascade.serving import on_socket, over_http
from appliance.solvers.cascade.staged import Identity, StagedCascade
from tests.cascade_stub import ANSWER, FENCED, PATCH, stub_http, stub_socket

Open = Callable[[Path], AbstractContextManager[Cascade]]


def staged(folder: Path) -> StagedCascade:
    (folder / "mend.patch").write_text(PATCH)
    (folder / "rules.toml").write_text('[[rule]]\npattern = "mend"\npatch = "mend.patch"\n')
    return StagedCascade([read_rules(folder / "rules.toml")], Identity("reference", "0.1", "abc"))


@contextmanager
def in_process(folder: Path) -> Iterator[Cascade]:
    yield staged(folder)


@contextmanager
def reference_socket(folder: Path) -> Iterator[Cascade]:
    with on_socket(folder / "c.sock", staged(folder)):
        yield SocketCascade(folder / "c.sock", seconds=20)


@contextmanager
def reference_http(folder: Path) -> Iterator[Cascade]:
    with over_http("127.0.0.1", 0, staged(folder)) as url:
        yield HttpCascade(url, seconds=20)


@contextmanager
def stubbed_socket(folder: Path) -> Iterator[Cascade]:
    with stub_socket(folder / "c.sock"):
        yield SocketCascade(folder / "c.sock", seconds=20)


@contextmanager
def stubbed_http(folder: Path) -> Iterator[Cascade]:
    with stub_http(ANSWER) as url:
        yield HttpCascade(url, seconds=20)


EVERY = [in_process, reference_socket, reference_http, stubbed_socket, stubbed_http]
OURS = [in_process, reference_socket, reference_http]
SERVED = [reference_socket, reference_http]


@pytest.mark.parametrize("open_cascade", EVERY)
def test_it_says_who_it_is(open_cascade: Open, tmp_path: Path) -> None:
    """Protocol, name, version and commit: by these a record is pinned (row J17)."""
    with open_cascade(tmp_path) as cascade:
        health = cascade.health()
    assert (health.protocol, bool(health.name), bool(health.version), bool(health.commit)) == (
        "cascade-v1", True, True, True
    )  # fmt: skip
    assert health.metering is not None


@pytest.mark.parametrize("open_cascade", EVERY)
def test_an_answer_names_its_stage_and_adds_up(open_cascade: Open, tmp_path: Path) -> None:
    """Tiers in the order they were tried, the last one answered, their joules are the answer's (row J17)."""
    with open_cascade(tmp_path) as cascade:
        answer = cascade.resolve(Resolve(id="fix", prompt="mend it"))
    assert PATCH in answer.response
    assert answer.tiers[-1].stage == answer.stage
    assert sum(tier.microjoules for tier in answer.tiers) == answer.microjoules > 0


@pytest.mark.parametrize("open_cascade", EVERY)
def test_it_can_be_warmed(open_cascade: Open, tmp_path: Path) -> None:
    """With as many prompts as are given (rows J17, E24)."""
    with open_cascade(tmp_path) as cascade:
        assert cascade.warm(Warm(prompts=("mend a", "mend b"))).warmed == 2


@pytest.mark.parametrize("open_cascade", EVERY)
def test_many_prompts_in_a_row_are_answered(open_cascade: Open, tmp_path: Path) -> None:
    """Nothing is used up by asking (row J17)."""
    with open_cascade(tmp_path) as cascade:
        stages = [cascade.resolve(Resolve(id="fix", prompt=f"mend {at}")).stage for at in range(100)]
    assert len(stages) == 100


@pytest.mark.parametrize("open_cascade", EVERY)
def test_what_is_answered_holds_against_the_published_schema(open_cascade: Open, tmp_path: Path) -> None:
    """cascade-v1, by another validator than the models (row J17)."""
    with open_cascade(tmp_path) as cascade:
        said = [cascade.health(), cascade.resolve(Resolve(id="a", prompt="mend")), cascade.warm(Warm(prompts=()))]
    assert [schemas.first_problem("cascade-v1", one.json_value()) for one in said] == [None, None, None]


@pytest.mark.parametrize("open_cascade", OURS)
def test_what_was_answered_before_comes_from_the_cache(open_cascade: Open, tmp_path: Path) -> None:
    """The exact prompt alone; with no joules of the stages behind it (row J17)."""
    with open_cascade(tmp_path) as cascade:
        first, again, other = (
            cascade.resolve(Resolve(id="fix", prompt=prompt)) for prompt in ("mend it", "mend it", "mend  it")
        )
    assert [first.stage, again.stage, other.stage] == ["rule", "cache", "rule"]
    assert again.response == first.response
    assert [tier.stage for tier in again.tiers] == ["cache"]


@pytest.mark.parametrize("open_cascade", OURS)
def test_a_prompt_that_no_stage_answers_is_an_error(open_cascade: Open, tmp_path: Path) -> None:
    """An object with a code, never an empty answer (row J17)."""
    with open_cascade(tmp_path) as cascade, pytest.raises(CascadeFailed) as failed:
        cascade.resolve(Resolve(id="fix", prompt="something else"))
    assert failed.value.code == "failed"
    assert "none of its stages has an answer: cache, rule" in failed.value.message


@pytest.mark.parametrize("open_cascade", SERVED)
def test_a_message_that_is_too_long_is_refused_as_an_object(open_cascade: Open, tmp_path: Path) -> None:
    """And nothing of it is held (row J17)."""
    with open_cascade(tmp_path) as cascade:
        with pytest.raises(CascadeFailed) as failed:
            cascade.resolve(Resolve(id="fix", prompt="m" * 1024 * 1024))
        assert failed.value.code in ("too_large", "closed", "refused")
        assert cascade.resolve(Resolve(id="fix", prompt="mend")).stage == "rule"


@pytest.mark.parametrize(
    "message",
    [
        b"not json",
        b'{"id": "a", "prompt": 1}',
        b'{"id": "a", "prompt": "x", "more": 1}',
        b'{"id": "a", "id": "b", "prompt": "x"}',
        b'{"prompts": ["x", 1]}',
        b"[]",
        b'{"who": 1}',
        b"[" * 5000,
    ],
)
def test_a_malformed_line_is_answered_and_the_connection_goes_on(tmp_path: Path, message: bytes) -> None:
    """`bad_message`, then the next request on the same connection (row J17)."""
    with on_socket(tmp_path / "c.sock", staged(tmp_path)), socket.socket(socket.AF_UNIX) as link:
        link.settimeout(20)
        link.connect(str(tmp_path / "c.sock"))
        lines = link.makefile("rb")
        link.sendall(message + b'\n{"id": "a", "prompt": "mend"}\n')
        refused, answer = (json.loads(lines.readline()) for _ in range(2))
    assert refused["error"]["code"] == "bad_message"
    assert answer["stage"] == "rule"


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        (("GET", "/", None), 404, "unknown_route"),
        (("GET", "/resolve", None), 404, "unknown_route"),
        (("POST", "/healthz", b"{}"), 404, "unknown_route"),
        (("POST", "/resolve", b"{}"), 400, "bad_message"),
        (("POST", "/resolve", b"\xff"), 400, "bad_message"),
        (("POST", "/resolve", b'{"id": "a", "prompt": "else"}'), 502, "failed"),
    ],
)
def test_http_has_a_status_for_each_error(
    tmp_path: Path, asked: tuple[str, str, bytes | None], status: int, code: str
) -> None:
    """The object is the same as on the socket (row J17)."""
    with over_http("127.0.0.1", 0, staged(tmp_path)) as url:
        link = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
        link.request(*asked)
        answer = link.getresponse()
        said: dict[str, Any] = json.loads(answer.read())
        link.close()
    assert (answer.status, said["error"]["code"]) == (status, code)
    assert schemas.first_problem("cascade-v1", said) is None


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({**ANSWER, "microjoules": -1}, "garbage"),
        ({**ANSWER, "tiers": [*ANSWER["tiers"], {"stage": "late", "microjoules": 0}]}, "garbage"),
        ({"error": {"code": "overloaded", "message": "later"}}, "overloaded"),
    ],
)
def test_what_is_no_answer_is_none_on_either_road(tmp_path: Path, answer: dict[str, Any], code: str) -> None:
    """The same words of the same stub (row J17)."""
    with stub_http(answer) as url, stub_socket(tmp_path / "c.sock", answer):
        for cascade in (HttpCascade(url, seconds=20), SocketCascade(tmp_path / "c.sock", seconds=20)):
            with pytest.raises(CascadeFailed) as failed:
                cascade.resolve(Resolve(id="a", prompt="x"))
            assert failed.value.code == code


def test_an_answer_may_leave_out_what_is_optional() -> None:
    """Three members are the whole of it (formats 4)."""
    answer = Answer.from_json(b'{"response": "x", "stage": "kv", "microjoules": 50}', "here")
    assert (answer.usage, answer.tiers, answer.provenance) == (None, (), None)
    assert FENCED not in answer.response
