"""A conversation as its turns: what two requests are compared by where their bytes differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appliance.gateway.exchange import WireForm
from appliance.gateway.forms.bodies import Malformed, read_object
from attest import canonical

Json = dict[str, Any]
# What somebody sent is looked for in tuples, never in sets: it may be an object, which no set can be asked for.


@dataclass(frozen=True)
class Call:
    id: str
    """Empty where the form has none (Gemini's)."""
    name: str
    arguments: str
    """RFC 8785 where they are JSON, else as they came."""


@dataclass(frozen=True)
class Turn:
    """One message of a request. A model's thinking is in no turn: it is sealed, and another each time."""

    role: str
    calls: tuple[Call, ...] = ()
    answers: tuple[tuple[str, str], ...] = ()
    """`(id of the call, what the tool gave)`; Gemini's have the tool's name for an id."""
    text: str = ""
    """With `[image sha256:...]` and its like in the place of what is no text."""


@dataclass(frozen=True)
class Structure:
    turns: tuple[Turn, ...]


def structure_of(form: WireForm, body: bytes) -> Structure:
    """`body`: decoded (`bodies.decoded`). Raises Malformed for what is no conversation of this form."""
    try:
        return Structure(tuple(_TURNS[form](read_object(body))))
    except RecursionError as error:
        raise Malformed("the request's body is nested too deeply") from error


def arguments_text(value: object) -> str:
    """One text for equal arguments, whether they came as JSON or as a string that holds it."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return str(value)
    try:
        return canonical.dumps(value).decode()
    except canonical.NotCanonical:
        return json.dumps(value, sort_keys=True)


def call_of_item(item: Json) -> Call:
    """A call of the responses form: of a function, or of a tool of the provider's own with other members."""
    known = item.get("arguments", item.get("input", item.get("action", item.get("operation"))))
    return Call(
        _string(item.get("call_id") or item.get("id")), _string(item.get("name") or item["type"]), arguments_text(known)
    )


def text_of(content: object) -> str:
    """Of a message's or a tool's content: a string, a list of parts, or a part."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for text in map(text_of, content) if text)
    if isinstance(content, dict):
        kind = content.get("type")
        if kind in ("thinking", "redacted_thinking") or content.get("thought") is True:
            return ""
        text = content.get("text", content.get("refusal"))
        return text if isinstance(text, str) else _mark(kind, content)
    return json.dumps(content)


def _mark(kind: object, part: Json) -> str:
    rest = {name: value for name, value in part.items() if name != "cache_control"}
    digest = hashlib.sha256(arguments_text(rest).encode(errors="surrogatepass")).hexdigest()
    return f"[{kind if isinstance(kind, str) else 'part'} sha256:{digest}]"


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _objects(value: object, name: str) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Malformed(f"{name} is not a list of objects")
    return value


def _parts(content: object) -> list[Json]:
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _anthropic(body: Json) -> Iterator[Turn]:
    if body.get("system"):
        yield Turn("system", text=text_of(body["system"]))
    for message in _objects(body.get("messages"), "messages"):
        content = message.get("content")
        parts = _parts(content)
        uses = [part for part in parts if part.get("type") == "tool_use"]
        given = [part for part in parts if part.get("type") == "tool_result"]
        spoken = [part for part in parts if part.get("type") not in ("tool_use", "tool_result")]
        yield Turn(
            _string(message.get("role")),
            tuple(Call(_string(u.get("id")), _string(u.get("name")), arguments_text(u.get("input"))) for u in uses),
            tuple((_string(part.get("tool_use_id")), text_of(part.get("content"))) for part in given),
            text_of(spoken if isinstance(content, list) else content),
        )


def _chat(body: Json) -> Iterator[Turn]:
    for message in _objects(body.get("messages"), "messages"):
        text = text_of(message.get("content"))
        role = _string(message.get("role"))
        if role in {"tool", "function"}:
            answered = _string(message.get("tool_call_id") or message.get("name"))
            yield Turn(role, answers=((answered, text),))
        else:
            yield Turn(role, tuple(chat_calls(message)), text=text)


def chat_calls(message: Json) -> Iterator[Call]:
    for call in _objects(message.get("tool_calls"), "tool_calls"):
        said = call.get("function") or call.get("custom") or {}
        if not isinstance(said, dict):
            raise Malformed("a tool call's function is not an object")
        yield Call(
            _string(call.get("id")), _string(said.get("name")), arguments_text(said.get("arguments", said.get("input")))
        )
    old = message.get("function_call")
    if isinstance(old, dict):
        yield Call("", _string(old.get("name")), arguments_text(old.get("arguments")))


def _responses(body: Json) -> Iterator[Turn]:
    if body.get("instructions"):
        yield Turn("system", text=text_of(body["instructions"]))
    asked = body.get("input")
    if isinstance(asked, str):
        yield Turn("user", text=asked)
        return
    for item in _objects(asked, "input"):
        kind = _string(item.get("type")) or "message"
        if kind == "message":
            yield Turn(_string(item.get("role")), text=text_of(item.get("content")))
        elif kind.endswith("_call"):
            yield Turn("assistant", (call_of_item(item),))
        elif kind.endswith("_call_output"):
            yield Turn("tool", answers=((_string(item.get("call_id") or item.get("id")), text_of(item.get("output"))),))
        elif kind != "reasoning":
            yield Turn(kind, text=_mark(kind, item))


def _gemini(body: Json) -> Iterator[Turn]:
    system = body.get("systemInstruction", body.get("system_instruction"))
    if isinstance(system, dict):
        yield Turn("system", text=text_of(system.get("parts")))
    for content in _objects(body.get("contents"), "contents"):
        parts = _parts(content.get("parts"))
        given = [part["functionResponse"] for part in parts if isinstance(part.get("functionResponse"), dict)]
        yield Turn(
            _string(content.get("role")) or "user",
            tuple(gemini_calls(parts)),
            tuple((_string(g.get("id") or g.get("name")), arguments_text(g.get("response"))) for g in given),
            text_of([part for part in parts if not {"functionCall", "functionResponse"} & part.keys()]),
        )


def gemini_calls(parts: Iterable[Json]) -> Iterator[Call]:
    for part in parts:
        call = part.get("functionCall")
        if isinstance(call, dict):
            yield Call(_string(call.get("id")), _string(call.get("name")), arguments_text(call.get("args")))


_TURNS: Final[Mapping[WireForm, Callable[[Json], Iterator[Turn]]]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
}
