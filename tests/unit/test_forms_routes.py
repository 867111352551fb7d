"""Which form a request speaks, what it asks for, and how it is refused."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from typing import Any

import pytest

from appliance.gateway.exchange import Asked
from appliance.gateway.forms.bodies import TooLarge, decoded
from appliance.gateway.forms.listing import models_reply
from appliance.gateway.forms.queries import Malformed, OtherModel, Query, query_of
from appliance.gateway.forms.refusals import refusal
from appliance.gateway.forms.routes import Route, route_of

POSTED = [
    ("/messages", Route("anthropic", "generate")),
    ("/messages/count_tokens", Route("anthropic", "count_tokens")),
    ("/chat/completions", Route("openai-chat", "generate")),
    ("/responses", Route("openai-responses", "generate")),
    ("/responses/input_tokens", Route("openai-responses", "count_tokens")),
]


def _asked(body: Any, *headers: tuple[str, str], target: str = "/v1/messages") -> Asked:
    return Asked("POST", target, headers, body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize("before", ["", "/v1"])
@pytest.mark.parametrize("query", ["", "?beta=true", "?key=x&beta=true"])
@pytest.mark.parametrize(("path", "expected"), POSTED)
def test_a_base_may_or_may_not_hold_the_version(before: str, query: str, path: str, expected: Route) -> None:
    """Row M13."""
    assert route_of("POST", before + path + query) == expected


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
def test_geminis_path_says_the_model_and_whether_it_streams_and_as_what(version: str) -> None:
    """Row M13."""
    base = f"/{version}/models/gemini-2.5-flash"
    model = "gemini-2.5-flash"
    assert route_of("POST", f"{base}:generateContent") == Route("gemini", "generate", model)
    assert route_of("POST", f"{base}:streamGenerateContent?alt=sse") == Route("gemini", "generate", model, True)
    assert route_of("POST", f"{base}:streamGenerateContent?key=k") == Route("gemini", "generate", model, True, False)
    assert route_of("POST", f"{base}:countTokens") == Route("gemini", "count_tokens", model)
    assert route_of("POST", f"/{version}/models/a%2Fb:generateContent") == Route("gemini", "generate", "a/b")


def test_models_are_listed_for_each_form() -> None:
    """Row M13."""
    for path in ("/v1/models", "/models", "/v1/models?limit=1000"):
        assert route_of("GET", path) == Route("openai-chat", "models")
    assert route_of("HEAD", "/v1/models/m%2Fn") == Route("openai-chat", "models", "m/n")
    assert route_of("GET", "/v1beta/models?pageSize=5") == Route("gemini", "models")
    assert route_of("GET", "/v1beta/models/g") == Route("gemini", "models", "g")


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/"),
        ("GET", "/v1/messages"),
        ("POST", "/v1/models"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v2/messages"),
        ("POST", "/v1/messages/"),
        ("POST", "/v1/messages/batches"),
        ("POST", "//messages"),
        ("DELETE", "/v1/messages"),
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/v1beta/models/:generateContent"),
        ("GET", "/v1beta/models/m:generateContent"),
    ],
)
def test_what_no_form_has_is_no_route(method: str, target: str) -> None:
    """Row M13."""
    assert route_of(method, target) is None


def test_a_query_says_the_model_and_whether_the_answer_streams() -> None:
    """Row M13."""
    chat = Route("openai-chat", "generate")
    assert query_of(Route("anthropic", "generate"), _asked({"model": "m", "stream": True})) == Query("m", True)
    assert query_of(chat, _asked({"model": "m"})) == Query("m", False)
    assert query_of(chat, _asked({"model": "m", "stream": False})) == Query("m", False)
    gemini = Route("gemini", "generate", "g", True)
    assert query_of(gemini, _asked({"model": "models/g"})) == Query("g", True)
    with pytest.raises(OtherModel):
        query_of(gemini, _asked({"model": "other"}))
    assert query_of(Route("openai-responses", "generate"), _asked({"stream": None})) == Query(None, False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model": 3}',
        b'{"stream": "yes"}',
        b'{"model": ""}',
        b'{"model": "a\\nb"}',
        b'{"model": "\\ud800"}',
        b'{"model": "' + b"m" * 300 + b'"}',
        b'{"temperature": NaN}',
        b'{"a": ' + b"[" * 100_000,
        b'{"a": ' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
    ],
)
def test_a_request_that_no_upstream_could_take_is_malformed_in_words(body: bytes) -> None:
    """Row M13."""
    with pytest.raises(Malformed) as refused:
        query_of(Route("anthropic", "generate"), _asked(body))
    assert 0 < len(str(refused.value)) < 300
    str(refused.value).encode()


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "deflate", "identity", "raw deflate"])
def test_a_body_is_read_in_the_codings_that_clients_use(coding: str) -> None:
    """Row M13."""
    content = b'{"model": "m"}'
    raw = zlib.compressobj(wbits=-15)
    made = {
        "deflate": zlib.compress(content),
        "identity": content,
        "raw deflate": raw.compress(content) + raw.flush(),
    }.get(coding, gzip.compress(content[:5]) + gzip.compress(content[5:]))
    asked = _asked(made, ("content-encoding", coding.removeprefix("raw ")))
    assert decoded(asked) == content
    assert query_of(Route("anthropic", "generate"), asked) == Query("m", False)
    assert asked.body == made


@pytest.mark.parametrize(
    ("body", "coding"),
    [(b"no gzip", "gzip"), (gzip.compress(b"{}")[:-3], "gzip"), (b"", "zstd"), (b"{}", "br"), (b"{}", "gzip, gzip")],
)
def test_a_body_that_cannot_be_decoded_is_malformed(body: bytes, coding: str) -> None:
    """Row M13."""
    with pytest.raises(Malformed):
        decoded(_asked(body, ("content-encoding", coding)))


def test_a_bomb_is_refused_before_it_is_held() -> None:
    """Row M13: 200 MB from 200 kB, and in many members."""
    whole = zlib.compressobj(9, wbits=31)
    bomb = b"".join(whole.compress(bytes(1024 * 1024)) for _ in range(200)) + whole.flush()
    members = gzip.compress(bytes(1024 * 1024)) * 200
    for body in (bomb, members):
        asked = _asked(body, ("content-encoding", "gzip"))
        tracemalloc.start()
        try:
            with pytest.raises(TooLarge):
                decoded(asked, most=1024 * 1024)
            assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
        finally:
            tracemalloc.stop()
    with pytest.raises(TooLarge):
        decoded(_asked(b"x" * 11), most=10)


def test_a_refusal_has_the_providers_own_shape() -> None:
    """Rows M13, M15: a budget is a rate limit to the agent."""
    anthropic = refusal("anthropic", "budget", "over")
    assert (anthropic.status, json.loads(anthropic.body)["error"]["type"]) == (429, "rate_limit_error")
    assert json.loads(anthropic.body)["type"] == "error"
    chat = refusal("openai-chat", "budget", "over")
    assert (chat.status, json.loads(chat.body)["error"]["code"]) == (429, "rate_limit_exceeded")
    gemini = refusal("gemini", "budget", "over")
    error = json.loads(gemini.body)["error"]
    assert (error["code"], error["message"], error["status"]) == (429, "over", "RESOURCE_EXHAUSTED")
    assert "PerDay" in error["details"][0]["violations"][0]["quotaId"]
    assert refusal("anthropic", "overloaded", "x").status == 529
    assert refusal("openai-responses", "overloaded", "x").status == 503
    for form in ("anthropic", "openai-chat", "openai-responses", "gemini", None):
        for kind, status in (("model", 404), ("route", 404), ("malformed", 400), ("diverged", 400), ("too_large", 413)):
            reply = refusal(form, kind, "said \udc80")  # type: ignore[arg-type]
            assert reply.status == status
            assert ("content-type", "application/json") in reply.headers
            assert json.loads(reply.body)["error"]["message"] == "said ?"


def test_no_client_is_told_to_try_again_what_waiting_does_not_mend() -> None:
    """Row M15."""
    for kind, expected in (("budget", True), ("diverged", True), ("overloaded", False)):
        headers = dict(refusal("openai-chat", kind, "x").headers)  # type: ignore[arg-type]
        assert (headers.get("x-should-retry") == "false") is expected


def test_the_list_of_models_holds_the_plans_alone() -> None:
    """Row M13."""
    both = json.loads(models_reply(Route("openai-chat", "models"), "m").body)
    assert [model["id"] for model in both["data"]] == ["m"]
    assert (both["object"], both["first_id"], both["has_more"]) == ("list", "m", False)
    gemini = json.loads(models_reply(Route("gemini", "models"), "m").body)
    assert [model["name"] for model in gemini["models"]] == ["models/m"]
    assert json.loads(models_reply(Route("openai-chat", "models", "m"), "m").body)["id"] == "m"
    assert models_reply(Route("gemini", "models", "other"), "m").status == 404


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"max_tokens": 9}, 9),
        ({"max_completion_tokens": 9, "n": 3}, 27),
        ({"max_output_tokens": 9}, 9),
        ({"generationConfig": {"maxOutputTokens": 9, "candidateCount": 2}}, 18),
        ({"max_tokens": True}, None),
        ({"max_tokens": -1}, None),
        ({"max_tokens": "9"}, None),
        ({}, None),
    ],
)
def test_a_query_says_how_long_its_answers_may_be(body: dict[str, Any], tokens: int | None) -> None:
    """Row M15: what a budget holds for it while it is under way."""
    assert query_of(Route("gemini", "generate", "g"), _asked(body)).answer_tokens == tokens


def test_a_tuned_model_is_called_by_its_whole_name() -> None:
    """Row M13: another one than the model that its last part names."""
    for place, model in (("models/m", "m"), ("tunedModels/m", "tunedModels/m")):
        found = route_of("POST", f"/v1beta/{place}:generateContent")
        assert found is not None and found.model == model
