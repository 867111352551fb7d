"""Where each wire form puts what tools gave: the part of a request that may differ in a `structural` match. Pure.

An agent without tools in its requests puts what it saw into turns of the user: there, every turn of the user's behind
the model's first is a tool's result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from appliance.gateway.exchange import WireForm

LEFT_OUT: Final = "<tool result>"
_HISTORY: Final[dict[WireForm, str]] = {
    "anthropic": "messages",
    "openai-chat": "messages",
    "openai-responses": "input",
    "gemini": "contents",
}
_OF_THE_MODEL: Final = frozenset({"assistant", "model"})


@dataclass(frozen=True)
class ToolResult:
    path: str
    """`$.messages[3].content[0]`."""
    call: str
    """The id or name of the call; empty where it has none."""
    given: Any


def without_results(form: WireForm, value: Any) -> tuple[Any, tuple[ToolResult, ...]]:
    """The request with LEFT_OUT for each result, and the results in their order. `value` itself is not changed."""
    key = _HISTORY[form]
    history = value.get(key) if isinstance(value, dict) else None
    if not isinstance(history, list):
        return value, ()
    found: list[ToolResult] = []
    left = _Left(found)
    by_tools = bool(value.get("tools") or value.get("functions"))
    turns: list[Any] = []
    answered = False
    for at, turn in enumerate(history):
        if not isinstance(turn, dict):
            turns.append(turn)
            continue
        role = turn.get("role")
        if not by_tools and answered and role == "user":
            turns.append(left.out(turn, ("content", "parts"), f"$.{key}[{at}]", ""))
        else:
            turns.append(_TURNS[form](turn, f"$.{key}[{at}]", left))
        answered = answered or role in _OF_THE_MODEL
    return {**value, key: turns}, tuple(found)


class _Left:
    def __init__(self, found: list[ToolResult]):
        self._found = found

    def out(self, holder: dict[str, Any], names: tuple[str, ...], path: str, call: object) -> dict[str, Any]:
        """`holder` less the members of these names."""
        given = {name: holder[name] for name in names if name in holder}
        self._found.append(ToolResult(path, call if isinstance(call, str) else "", given))
        return {name: one for name, one in holder.items() if name not in given} | {"": LEFT_OUT}


def _anthropic(turn: dict[str, Any], path: str, left: _Left) -> dict[str, Any]:
    if not isinstance(turn.get("content"), list):
        return turn
    return {
        **turn,
        "content": [
            left.out(block, ("content", "is_error"), f"{path}.content[{at}]", block.get("tool_use_id"))
            if isinstance(block, dict) and block.get("type") == "tool_result"
            else block
            for at, block in enumerate(turn["content"])
        ],
    }


def _chat(turn: dict[str, Any], path: str, left: _Left) -> dict[str, Any]:
    if turn.get("role") in ("tool", "function"):  # any value may stand there, a list too
        return left.out(turn, ("content",), path, turn.get("tool_call_id", turn.get("name")))
    return turn


def _responses(item: dict[str, Any], path: str, left: _Left) -> dict[str, Any]:
    if str(item.get("type")).endswith("_call_output"):
        return left.out(item, ("output", "status"), path, item.get("call_id"))
    return item


def _gemini(turn: dict[str, Any], path: str, left: _Left) -> dict[str, Any]:
    if not isinstance(turn.get("parts"), list):
        return turn
    parts: list[Any] = []
    for at, part in enumerate(turn["parts"]):
        answer = part.get("functionResponse") if isinstance(part, dict) else None
        if isinstance(answer, dict):
            here = f"{path}.parts[{at}]"
            kept = left.out(answer, ("response", "parts"), here, answer.get("id", answer.get("name")))
            parts.append({**part, "functionResponse": kept})
        else:
            parts.append(part)
    return {**turn, "parts": parts}


_TURNS: Final[dict[WireForm, Callable[[dict[str, Any], str, _Left], dict[str, Any]]]] = {
    "anthropic": _anthropic,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "gemini": _gemini,
}
