"""aider: plain text. It ends with no word of its own: what went wrong stands after the last count of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from appliance.records.trial import Usage
from appliance.solvers.outputs.claimed import Claimed
from appliance.solvers.outputs.reading import Printed, detail, summed, usage, usd

_TOKENS: Final = re.compile(r"^Tokens: (?P<rest>.{1,200})$", re.MULTILINE)
_EXACT: Final = re.compile(r"(\d{1,3}) sent, (\d{1,3}) received\.")
_SESSION: Final = re.compile(r"\$(\d{1,9}\.\d{1,9}) session\.")
_ERROR: Final = re.compile(
    r"^(?:litellm\.)?(?P<name>[A-Za-z]{1,40}(?:Error|Exception|Timeout)): .{0,400}", re.MULTILINE
)
_OURS: Final = re.compile(r"litellm\.|API")
_LIMITS: Final = (
    ("ContextWindowExceededError", "context"),
    ("has hit a token limit!", "context"),
    ("reflections allowed, stopping.", "reflections"),
)


def parse(stdout: bytes, _files: Mapping[str, bytes]) -> Claimed:
    printed = Printed(stdout)
    text = printed.text
    counts = list(_TOKENS.finditer(text))
    if not counts and "Aider v" not in text:
        return Claimed("incomplete", detail=printed.missing("line of aider's"))
    counted = None if printed.cut else summed([_usage(found["rest"]) for found in counts])
    sessions = _SESSION.findall(text)
    cost = usd(sessions[-1]) if sessions else None
    after = text[counts[-1].end() :] if counts else text
    limit = next((name for words, name in _LIMITS if words in after), None)
    if limit:
        return Claimed("complete", counted, cost, limit=limit)
    errors = [found[0] for found in _ERROR.finditer(after) if _OURS.match(found[0])]
    if errors:
        return Claimed("provider_failed", counted, cost, detail(errors[-1]))
    return Claimed("complete", counted, cost)


def _usage(rest: str) -> Usage | None:
    """None from a thousand on, which it prints rounded; None with a cache, where `sent` has more than one meaning."""
    found = _EXACT.match(rest)
    return usage(inputs=int(found[1]), output=int(found[2])) if found else None
