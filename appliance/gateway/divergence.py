"""What is said of two requests that differ: a diff for people, and one line a tool's result. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Final

from appliance.gateway.exchange import Asked
from appliance.gateway.masks import Masker, mask_text, masked_value, taken_apart
from appliance.gateway.tool_results import ToolResult
from appliance.printing import json_text

MAX_DIFF: Final = 64 * 1024
"""Characters."""
_MAX_LINES: Final = 2000
_WIDTH: Final = 160
_CONTEXT: Final = 3
_MAX_DIFFERENCES: Final = 50
_MAX_COVERED: Final = 200
_COVERED_SHOWN: Final = 100
_SHOWN: Final = 120


def request_lines(asked: Asked, value: Any) -> list[str]:
    """A request after the masks: one line for where it goes, then its JSON, sorted and indented."""
    text = json_text(_sorted(masked_value(value)))
    lines = [f"{asked.method} {mask_text(asked.target)}"]
    for line in text.split("\n"):
        # A text's own lines on lines of their own, and none too wide to be read.
        for part in line.replace("\\n", "\\n\n").split("\n"):
            lines += [part[at : at + _WIDTH] for at in range(0, len(part), _WIDTH)] or [""]
    return lines


def diff(recorded: list[str], asked: list[str], name: str) -> str:
    """Unified, cut off at 64 Ki characters; where nothing can be seen, why not."""
    head = _common(recorded, asked)
    tail = _common(recorded[head:][::-1], asked[head:][::-1])
    start = max(head - _CONTEXT, 0)
    old, new = (side[start : len(side) - max(tail - _CONTEXT, 0)] for side in (recorded, asked))
    left_out = max(len(old), len(new)) - _MAX_LINES
    lines = list(
        difflib.unified_diff(
            old[:_MAX_LINES], new[:_MAX_LINES], f"recorded {name}", "asked now", n=_CONTEXT, lineterm=""
        )
    )
    if not lines:
        return "the requests differ only in which of their ids are the same id, or in their headers\n"
    if left_out > 0:
        lines.append(f"[{left_out} lines more are not compared]")
    text = "".join(f"{line}\n" for line in lines)
    return (
        text if len(text) <= MAX_DIFF else f"{text[: MAX_DIFF - 40]}\n[{len(text) - MAX_DIFF + 40} characters more]\n"
    )


class Differences:
    """Between results of tools, each told once: a history that grows holds those of before again."""

    def __init__(self, masker: Masker):
        self._masker = masker
        self._told: set[tuple[str, bytes, bytes]] = set()

    def between(self, recorded: Sequence[ToolResult], now: Sequence[ToolResult]) -> tuple[str, ...]:
        """One line a result that differs after the masks, with the first place where it does."""
        found: list[str] = []
        more = 0
        for old, new in zip(recorded, now, strict=True):
            known = (old.path, self._masker.shape(old.given).digest, self._masker.shape(new.given).digest)
            if known[1] == known[2] or known in self._told:
                continue
            self._told.add(known)
            if len(found) < _MAX_DIFFERENCES:
                found.append(_difference(old, new))
            else:
                more += 1
        return (*found, f"and {more} more") if more else tuple(found)


class Covered:
    """What the rules covered and was another thing than recorded, each told once in a trial, up to a bound."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()
        self._known: set[bytes] = set()

    def between(self, recorded: Any, now: Any) -> tuple[str, ...]:
        """One line a pair of values, of requests that are equal after the masks."""
        if len(self._told) > _MAX_COVERED:
            return ()
        found: list[str] = []
        for path, rule, old, new in taken_apart(recorded, now, self._known):
            if (rule, old, new) in self._told or len(self._told) > _MAX_COVERED:
                continue
            self._told.add((rule, old, new))
            if len(self._told) > _MAX_COVERED:
                found.append(f"{path}: masked by {rule}; no more places are listed")
                continue
            was, now_is = (
                repr(text if len(text) <= _COVERED_SHOWN else f"{text[:_COVERED_SHOWN]}...") for text in (old, new)
            )
            found.append(f"{path}: masked by {rule}: recorded {was}, now {now_is}")
        return tuple(found)


def _difference(old: ToolResult, new: ToolResult) -> str:
    before, after = (json_text(_sorted(masked_value(one.given))) for one in (old, new))
    old_line, new_line = _first_apart(before, after)
    call = f" of {_short(old.call)}" if old.call else ""
    return f"{old.path}: result{call}: recorded {old_line}, now {new_line}"


def _first_apart(before: str, after: str) -> tuple[str, str]:
    """The lines at the first place where they differ, from a little before it."""
    at = _common(before, after)
    start = max(before.rfind("\\n", 0, at) + 2 if "\\n" in before[:at] else 0, at - _SHOWN // 2)
    old, new = (repr(text[start : start + _SHOWN].split("\\n")[0]) for text in (before, after))
    return old, new


def _common(one: Sequence[Any], other: Sequence[Any]) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
