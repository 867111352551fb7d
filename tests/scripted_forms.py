"""The four wire forms as the scripted model speaks them: whole answers, streams of events, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

Event = tuple[str | None, str]
"""`(event, data)` of one server-sent event."""
Json = dict[str, Any]

SHELLS = ("Bash", "shell_command", "exec_command", "shell", "run_shell_command", "bash", "local_shell")


@dataclass(frozen=True)
class Tokens:
    """In the normal form: `input` and `output` are all; the caches' and the reasoning's are parts of them."""

    input: int = 2000
    cache_read: int = 800
    cache_write: int = 0
    output: int = 37
    reasoning: int = 0


@dataclass(frozen=True)
class Spoken:
    """What one answer says: text in pieces, and then a call of one tool, where there is one."""

    pieces: tuple[str, ...]
    tool: str | None
    arguments: Json
    tokens: Tokens | None
    """None: the answer doesn't say what it used."""
    usage: Json | None
    """Another usage object in place of the form's own."""
    number: int
    """Of the request: what ids are made of."""
    model: str

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def shell_of(form: str, body: Json) -> tuple[str, Json] | None:
    """The offered tool that runs a command, with the schema of its arguments."""
    offered: dict[str, Json] = {}
    for tool in body.get("tools") or []:
        if form == "gemini":
            for declared in tool.get("functionDeclarations") or []:
                offered[declared["name"]] = declared.get("parametersJsonSchema") or declared.get("parameters") or {}
        elif form == "openai-chat":
            function = tool.get("function") or {}
            offered[function.get("name", "")] = function.get("parameters") or {}
        else:
            name = tool.get("name") or tool.get("type") or ""
            offered[name] = tool.get("input_schema") or tool.get("parameters") or {}
    return next(((name, offered[name]) for name in SHELLS if name in offered), None)


def arguments_for(schema: Json, command: str) -> Json:
    """`command` at the place where this tool takes it; whatever else it requires is filled in."""
    properties: Json = schema.get("properties") or {"command": {"type": "string"}}
    name = next((name for name in ("command", "cmd", "script") if name in properties), "command")
    kind = str(properties.get(name, {}).get("type", "")).lower()
    found: Json = {name: ["bash", "-lc", command] if kind == "array" else command}
    for other in schema.get("required") or []:
        found.setdefault(other, False if properties.get(other, {}).get("type") == "boolean" else "run a command")
    return found


def turns_of(form: str, body: Json) -> int:
    """How many turns with a tool's call the conversation holds so far."""
    if form == "gemini":
        turns = body.get("contents") or []
        return sum(any("functionCall" in part for part in turn.get("parts") or []) for turn in turns)
    if form == "openai-responses":
        items = body.get("input")
        return sum(str(item.get("type", "")).endswith("_call") for item in items) if isinstance(items, list) else 0
    turns = [turn for turn in body.get("messages") or [] if turn.get("role") == "assistant"]
    if form == "openai-chat":
        return sum(bool(turn.get("tool_calls")) for turn in turns)
    return sum(
        isinstance(turn.get("content"), list) and any(block.get("type") == "tool_use" for block in turn["content"])
        for turn in turns
    )


def usage_of(form: str, said: Spoken) -> Json | None:
    if said.usage is not None:
        return said.usage
    t = said.tokens
    if t is None:
        return None
    if form == "anthropic":
        return {
            "input_tokens": t.input - t.cache_read - t.cache_write,
            "cache_creation_input_tokens": t.cache_write,
            "cache_read_input_tokens": t.cache_read,
            "output_tokens": t.output,
            "output_tokens_details": {"thinking_tokens": t.reasoning},
            "service_tier": "standard",
        }
    if form == "openai-chat":
        return {
            "prompt_tokens": t.input,
            "completion_tokens": t.output,
            "total_tokens": t.input + t.output,
            "prompt_tokens_details": {"cached_tokens": t.cache_read, "cache_write_tokens": t.cache_write},
            "completion_tokens_details": {"reasoning_tokens": t.reasoning},
        }
    if form == "openai-responses":
        return {
            "input_tokens": t.input,
            "input_tokens_details": {"cached_tokens": t.cache_read, "cache_write_tokens": t.cache_write},
            "output_tokens": t.output,
            "output_tokens_details": {"reasoning_tokens": t.reasoning},
            "total_tokens": t.input + t.output,
        }
    return {
        "promptTokenCount": t.input,
        "candidatesTokenCount": t.output - t.reasoning,
        "thoughtsTokenCount": t.reasoning,
        "cachedContentTokenCount": t.cache_read,
        "totalTokenCount": t.input + t.output,
    }


def whole(form: str, said: Spoken) -> Json:
    """The answer to a request that doesn't stream."""
    usage = usage_of(form, said)
    counted = {} if usage is None else {"usageMetadata" if form == "gemini" else "usage": usage}
    if form == "anthropic":
        return _anthropic(said, _anthropic_blocks(said)) | counted
    if form == "openai-chat":
        message: Json = {"role": "assistant", "content": said.text or None}
        if said.tool:
            message["tool_calls"] = [_chat_call(said)]
        choice = {"index": 0, "message": message, "finish_reason": _chat_stop(said)}
        return _chat(said, "chat.completion") | {"choices": [choice]} | counted
    if form == "openai-responses":
        return _response(said, "completed", _items(said)) | counted
    return _candidate(said, _gemini_parts(replace(said, pieces=(said.text,) if said.text else ())), "STOP") | counted


def events(form: str, said: Spoken, *, usage_asked: bool = True) -> Iterator[Event]:
    """The answer as a stream. `usage_asked`: of a chat request's `stream_options`."""
    if form == "anthropic":
        named = _anthropic_events(said)
    elif form == "openai-chat":
        yield from ((None, json.dumps(chunk)) for chunk in _chat_chunks(said, usage_asked))
        yield None, "[DONE]"
        return
    elif form == "openai-responses":
        named = ({"sequence_number": at} | event for at, event in enumerate(_response_events(said)))
    else:
        usage = usage_of(form, said)
        counted = {} if usage is None else {"usageMetadata": usage}
        parts = _gemini_parts(said)
        for at, part in enumerate(parts):
            stop = "STOP" if at == len(parts) - 1 else None
            yield None, json.dumps(_candidate(said, [part], stop) | counted)
        return
    yield from ((str(event["type"]), json.dumps(event)) for event in named)


def refused(form: str, status: int, message: str) -> Json:
    """An error in the form's own shape."""
    if form == "anthropic":
        kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}
    if form == "gemini":
        kinds = {401: "UNAUTHENTICATED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        return {"error": {"code": status, "message": message, "status": kinds.get(status, "INTERNAL")}}
    return {"error": {"message": message, "type": "server_error" if status >= 500 else "requests", "code": None}}


# ---------------------------------------------------------------------------------------------- anthropic


def _anthropic(said: Spoken, content: list[Json]) -> Json:
    return {
        "id": f"msg_{said.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": said.model,
        "content": content,
        "stop_reason": "tool_use" if said.tool else "end_turn",
        "stop_sequence": None,
    }


def _anthropic_blocks(said: Spoken) -> list[Json]:
    blocks: list[Json] = [{"type": "text", "text": said.text}] if said.text else []
    if said.tool:
        call = {"id": f"toolu_{said.number:04d}", "name": said.tool, "input": said.arguments}
        blocks.append({"type": "tool_use"} | call)
    return blocks


def _anthropic_events(said: Spoken) -> Iterator[Json]:
    usage = usage_of("anthropic", said)
    begun = {} if usage is None else {"usage": usage | {"output_tokens": 1}}
    yield {"type": "message_start", "message": _anthropic(said, []) | {"stop_reason": None} | begun}
    yield {"type": "ping"}
    for index, block in enumerate(_anthropic_blocks(said)):
        text = block["type"] == "text"
        opened = block | ({"text": ""} if text else {"input": {}})
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for piece in said.pieces if text else (json.dumps(block["input"]),):
            kind, name = ("text_delta", "text") if text else ("input_json_delta", "partial_json")
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: piece}}
        yield {"type": "content_block_stop", "index": index}
    ended: Json = {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use" if said.tool else "end_turn", "stop_sequence": None},
    }
    if usage is not None:
        ended["usage"] = {name: usage[name] for name in ("output_tokens", "output_tokens_details") if name in usage}
    yield ended
    yield {"type": "message_stop"}


# ---------------------------------------------------------------------------------------------- openai chat


def _chat(said: Spoken, kind: str) -> Json:
    return {"id": f"chatcmpl-{said.number}", "object": kind, "created": 1796000000, "model": said.model}


def _chat_stop(said: Spoken) -> str:
    return "tool_calls" if said.tool else "stop"


def _chat_call(said: Spoken) -> Json:
    function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
    return {"id": f"call_{said.number}", "type": "function", "function": function}


def _chat_chunks(said: Spoken, usage_asked: bool) -> Iterator[Json]:
    base = _chat(said, "chat.completion.chunk")
    deltas: list[Json] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in said.pieces)]
    if said.tool:
        deltas.append({"tool_calls": [{"index": 0} | _chat_call(said)]})
    for delta in deltas:
        yield base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield base | {"choices": [{"index": 0, "delta": {}, "finish_reason": _chat_stop(said)}]}
    usage = usage_of("openai-chat", said)
    if usage_asked and usage is not None:
        yield base | {"choices": [], "usage": usage}


# ---------------------------------------------------------------------------------------------- openai responses


def _response(said: Spoken, status: str, output: list[Json]) -> Json:
    return {
        "id": f"resp_{said.number}",
        "object": "response",
        "created_at": 1796000000,
        "model": said.model,
        "status": status,
        "output": output,
    }


def _items(said: Spoken) -> list[Json]:
    found: list[Json] = []
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        message = {"type": "message", "role": "assistant", "status": "completed", "content": content}
        found.append(message | {"id": f"msg_{said.number}"})
    if said.tool == "local_shell":
        action = {"type": "exec", "command": said.arguments["command"], "env": {}}
        found.append(
            {"type": "local_shell_call", "id": f"ls_{said.number}", "call_id": f"call_{said.number}", "action": action}
            | {"status": "completed"}
        )
    elif said.tool:
        call = {"call_id": f"call_{said.number}", "name": said.tool, "arguments": json.dumps(said.arguments)}
        found.append({"type": "function_call", "id": f"fc_{said.number}", "status": "completed"} | call)
    return found


def _response_events(said: Spoken) -> Iterator[Json]:
    yield {"type": "response.created", "response": _response(said, "in_progress", []) | {"usage": None}}
    items = _items(said)
    for at, item in enumerate(items):
        where = {"output_index": at, "item_id": item["id"]}
        text = item["type"] == "message"
        empty = {"content": []} if text else {"arguments": ""} if item["type"] == "function_call" else {}
        begun = item | empty | {"status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": at, "item": begun}
        if text:
            part = {"type": "output_text", "text": "", "annotations": []}
            yield where | {"type": "response.content_part.added", "content_index": 0, "part": part}
            for piece in said.pieces:
                yield where | {"type": "response.output_text.delta", "content_index": 0, "delta": piece}
            yield where | {"type": "response.output_text.done", "content_index": 0, "text": said.text}
            part = part | {"text": said.text}
            yield where | {"type": "response.content_part.done", "content_index": 0, "part": part}
        elif item["type"] == "function_call":
            yield where | {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
            yield where | {"type": "response.function_call_arguments.done", "arguments": item["arguments"]}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    usage = usage_of("openai-responses", said)
    yield {"type": "response.completed", "response": _response(said, "completed", items) | {"usage": usage}}


# ---------------------------------------------------------------------------------------------- gemini


def _gemini_parts(said: Spoken) -> list[Json]:
    parts: list[Json] = [{"text": piece} for piece in said.pieces]
    if said.tool:
        parts.append({"functionCall": {"name": said.tool, "args": said.arguments}})
    return parts or [{"text": ""}]


def _candidate(said: Spoken, parts: list[Json], stop: str | None) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
    if stop:
        candidate["finishReason"] = stop
    return {"candidates": [candidate], "modelVersion": said.model, "responseId": f"r{said.number}"}
