"""What is taken out of requests and answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.gateway.credentials import Scrub, asked_of, is_credential, kept_of_answer

_KEY = "sk-ant-api03-abcabcabcabc-xyz"


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie",
        "x-amz-security-token", "x-auth-token", "openai-api-key", "x-csrf-token", "x-secret", "private-token",
        "x-access-key", "auth", "cookie2", "x-session-token", "x-password",
    ],
)  # fmt: skip
def test_a_header_that_carries_a_credential_is_known_by_its_name(name: str) -> None:
    """Row M16."""
    assert is_credential(name)


@pytest.mark.parametrize(
    "name",
    ["anthropic-version", "anthropic-beta", "content-type", "user-agent", "x-stainless-lang", "accept", "x-max-tokens"],
)
def test_a_header_that_a_provider_needs_is_none(name: str) -> None:
    assert not is_credential(name)


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        ("/v1beta/models/m:generateContent?key=abc", "/v1beta/models/m:generateContent"),
        ("/v1/m?alt=sse&key=abc", "/v1/m?alt=sse"),
        ("/v1/m?KEY=abc&alt=sse&access_token=x&api_key=y", "/v1/m?alt=sse"),
        ("/v1/m?%6bey=abc&alt=sse", "/v1/m?alt=sse"),
        ("/v1/m?monkey=1&keys=2", "/v1/m?monkey=1&keys=2"),
        ("http://user:secret@host/v1", "http://host/v1"),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
    ],
)
def test_a_query_keeps_all_but_its_credentials(target: str, kept: str) -> None:
    """Row M16: what is kept stays as it was written."""
    assert asked_of("POST", target, (), b"", Scrub()).target == kept


def test_an_answer_keeps_what_an_agent_can_need_and_no_more() -> None:
    """Row M16: neither cookies nor the name of an account."""
    came = (
        ("content-type", "text/event-stream"), ("set-cookie", "__cf_bm=s3cr3t"), ("request-id", "req_1"),
        ("anthropic-organization-id", "org-1"), ("openai-organization", "acme"), ("retry-after", "3"),
        ("anthropic-ratelimit-tokens-remaining", "9"), ("x-ratelimit-limit-requests", "9"),
        ("www-authenticate", "Bearer"), ("server", "cloudflare"), ("x-request-id", f"id-{_KEY}"),
    )  # fmt: skip
    assert kept_of_answer(came, Scrub([_KEY])) == (
        ("content-type", "text/event-stream"), ("request-id", "req_1"), ("retry-after", "3"),
        ("anthropic-ratelimit-tokens-remaining", "9"), ("x-ratelimit-limit-requests", "9"),
        ("x-request-id", "id-" + "*" * len(_KEY)),
    )  # fmt: skip


@given(st.lists(st.sampled_from([_KEY, _KEY[:-1], _KEY[:7], "abc", "sk-", "s", " "])), st.data())
def test_a_secret_is_found_however_a_stream_is_cut(parts: list[str], data: st.DataObject) -> None:
    """Row M16: the same bytes as if all had come at once, of the same length."""
    whole = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    scrub = Scrub([_KEY])
    held, passed = b"", b""
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        clean, held = scrub.split(held + whole[begin:end])
        passed += clean
    passed += scrub.whole(held)
    assert passed == whole.replace(_KEY.encode(), b"*" * len(_KEY))


def test_a_placeholder_is_no_secret() -> None:
    """A server without keys is given `EMPTY`: that word stays in what is said."""
    assert Scrub(["EMPTY"]).whole(b"the list is EMPTY") == b"the list is EMPTY"
