"""Which URL an agent's request goes to."""

from __future__ import annotations

import pytest

from appliance.errors import HostRefused, UsageRefused
from appliance.gateway.exchange import WireForm
from appliance.gateway.upstreams.provider import placed, provider_upstream


@pytest.mark.parametrize(
    ("base", "form", "target", "url"),
    [
        ("https://a.example", "anthropic", "/v1/messages?beta=true", "https://a.example/v1/messages?beta=true"),
        ("https://a.example/v1", "anthropic", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1", "openai-chat", "/v1/chat/completions", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1", "openai-chat", "/chat/completions", "https://a.example/v1/chat/completions"),
        ("http://a.example:80", "openai-chat", "/chat/completions", "http://a.example:80/v1/chat/completions"),
        ("https://a.example/api/paas/v4", "openai-chat", "/v1/chat/completions", "https://a.example/api/paas/v4/chat/completions"),
        ("https://a.example/api", "anthropic", "/v1/messages", "https://a.example/api/v1/messages"),
        ("https://a.example/v1", "openai-responses", "/responses", "https://a.example/v1/responses"),
        ("https://a.example", "gemini", "/v1beta/models/m:x?alt=sse", "https://a.example/v1beta/models/m:x?alt=sse"),
        ("https://a.example", "gemini", "/models/m:x", "https://a.example/v1beta/models/m:x"),
        ("https://a.example/v1beta", "gemini", "/v1beta/models/m:x", "https://a.example/v1beta/models/m:x"),
    ],
)  # fmt: skip
def test_the_version_stands_in_a_path_once(base: str, form: WireForm, target: str, url: str) -> None:
    """Row M13: whether the agent, the base URL, both or neither says it."""
    assert placed(base, form, target) == url


def test_a_variable_without_a_key_is_refused_by_its_name() -> None:
    """Row M16: before anything runs, and without a word of any other variable."""
    with pytest.raises(HostRefused, match="ANTHROPIC_API_KEY"):
        provider_upstream("anthropic", environment={"OPENAI_API_KEY": "sk-other"})


def test_a_key_that_cannot_stand_in_a_header_is_refused_unshown() -> None:
    """Row M16."""
    with pytest.raises(HostRefused) as refused:
        provider_upstream("openai", environment={"OPENAI_API_KEY": "sk-one\nsk-two"})
    assert "sk-" not in str(refused.value)


def test_no_word_of_an_upstream_holds_its_key() -> None:
    """Row M16."""
    upstream = provider_upstream("openai", environment={"OPENAI_API_KEY": "sk-0123456789abcdef"})
    assert "0123456789abcdef" not in repr(upstream)


@pytest.mark.parametrize(
    "url",
    [
        "a.example/v1",
        "ftp://a.example",
        "https://",
        "https://a.example/v1?key=x",
        "https://u:p@a.example",
        "http://a:x",
    ],
)
def test_a_place_that_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(UsageRefused, match="--model-url"):
        provider_upstream("compatible", url=url)


def test_a_compatible_server_needs_a_url_and_no_key() -> None:
    with pytest.raises(UsageRefused, match="--model-url"):
        provider_upstream("compatible")
    assert provider_upstream("compatible", url="http://127.0.0.1:1", environment={}).secrets == ()
