"""What a provider would do beside answering: look something up, run something, fetch something, go on by itself.

An agent's container has no network, so nothing of that is passed on: a tool that runs at the provider is a network, and
an answer that is not waited for, or that leaves its end out by wish, is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl

from appliance.gateway.exchange import Asked, WireForm
from appliance.gateway.forms.bodies import Malformed, short

_OURS: Final[dict[WireForm, tuple[str, ...]]] = {
    "anthropic": ("custom", "bash_", "text_editor_", "memory_", "computer_", "tool_search_tool_"),
    "openai-chat": ("function", "custom"),
    "openai-responses": ("function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"),
}
"""Types of tools that the agent runs itself, by their beginning where they end in a date."""
_SETTINGS: Final[dict[WireForm, frozenset[str]]] = {
    "anthropic": frozenset({"mcp_servers", "container"}),
    "openai-chat": frozenset({"web_search_options", "plugins", "search_parameters", "enable_search"}),
    "openai-responses": frozenset({"background", "plugins", "prompt", "conversation"}),
    "gemini": frozenset({"cachedContent", "cached_content"}),
}
"""Of a request's body: not taken where they say anything but null and false."""
_DECLARED: Final = frozenset({"functionDeclarations", "function_declarations"})
_SAID: Final[dict[WireForm, tuple[str, ...]]] = {
    "anthropic": ("messages", "system"),
    "openai-chat": ("messages",),
    "openai-responses": ("input",),
    "gemini": ("contents", "systemInstruction", "system_instruction"),
}
_FETCHED: Final = (b"url", b"Url", b"fileUri", b"file_uri", b"\\u00")
"""A body without any of these names no address of anything to be fetched."""
_LINKS: Final = frozenset({"image_url", "video_url", "audio_url", "file_url", "fileUri", "file_uri"})
_THE_AGENTS: Final = frozenset({"input", "arguments", "args", "response"})
"""Of a call and its result: their members mean what the tool says, and nothing to the provider."""
_QUERY: Final = frozenset({"alt", "prettyPrint"})
_HEADERS: Final = frozenset(
    {"x-goog-fieldmask", "x-http-method", "x-http-method-override", "x-method-override"}
)  # fmt: skip


def refuse_hosted(form: WireForm, asked: Asked, content: bytes, body: dict[str, Any]) -> None:
    """`content`: the bytes of `body`, decoded. Raises Malformed, in words for the sender."""
    for name in body.keys() & _SETTINGS[form]:
        if body[name] is not None and body[name] is not False:
            raise Malformed(f"{name} is not taken: a model answers here, and nothing else")
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        _own(form, tool)
    if form == "gemini":
        _whole(asked.target)
    for name, _ in asked.headers:
        if name in _HEADERS:
            raise Malformed(f"the header {name} is not taken")
    if any(mark in content for mark in _FETCHED):
        for said in _SAID[form]:
            _no_links(body.get(said))


def _own(form: WireForm, tool: object) -> None:
    if not isinstance(tool, dict):
        return
    if form == "gemini":
        found = next((name for name, value in tool.items() if name not in _DECLARED and value is not None), None)
        if found is not None:
            raise Malformed(f"the tool {short(found, 40)!r} is not taken: it would run at the provider")
        return
    kind = tool.get("type")
    if kind is None and form == "anthropic":
        return
    if not any(kind == ours or (ours[-1] == "_" and str(kind).startswith(ours)) for ours in _OURS[form]):
        raise Malformed(f"the tool {short(str(kind), 40)!r} is not taken: it would run at the provider")
    inner = tool.get("tools")
    for one in inner if kind == "namespace" and isinstance(inner, list) else ():
        _own(form, one)


def _whole(target: str) -> None:
    for name, value in parse_qsl(target.partition("?")[2], keep_blank_values=True):
        if name not in _QUERY or (name == "alt" and value not in {"sse", "json"}):
            raise Malformed(f"{short(name, 40)!r} in the query is not taken: an answer is passed on as it is")


def _no_links(said: object) -> None:
    for place, link in _links(said):
        if not link[:5].lower() == "data:":
            raise Malformed(f"{place} names something to be fetched: send its bytes")


def _links(said: object) -> Iterator[tuple[str, str]]:
    left = [said]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            for name, inner in value.items():
                link = inner.get("url") if isinstance(inner, dict) else inner
                if (
                    name in _LINKS or (name == "source" and isinstance(inner, dict) and inner.get("type") == "url")
                ) and isinstance(link, str):
                    yield name, link
                elif name not in _THE_AGENTS and isinstance(inner, list | dict):
                    left.append(inner)
