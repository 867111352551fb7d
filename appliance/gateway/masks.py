"""Requests with what may differ taken out: equal where the listed rules cover all that differs. Pure.

JSON is compared by its values, whatever the order of its members. A list of messages is masked element by element, and
each element once: a history that grows costs what it grew by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from appliance.gateway.mask_rules import (
    AGENT_ID,
    AGENT_ID_KEYS,
    AGENT_ID_PARENTS,
    CALL_ID,
    CALL_ID_KEYS,
    CALL_MEMBERS,
    ESCAPED,
    RULES,
)

_GROUPS: Final = ("v", "w", "x")
_COMPILED: Final = tuple((rule, re.compile(rule.hint), re.compile(rule.pattern)) for rule in RULES)
_DIGEST: Final = 16
_NOT_OURS: Final = "\ue001"
_PLANTED: Final = re.compile(f"<({_NOT_OURS}*(?:{'|'.join(rule.name for rule in RULES)})>)")
"""A text that spells what a rule puts: it is told from what a rule put."""
_SAYS: Final = frozenset({"assistant", "model"})
_MEANT: Final = {"n": "\n", "r": "\r", "t": "\t"}
_SPELLING: Final = {char: f"\\{letter}" for letter, char in _MEANT.items()}
_SPELT: Final = re.compile(r"\\([nrt])")
_MEANING: Final = re.compile(f"{ESCAPED}([\n\r\t])")


@dataclass(frozen=True)
class Piece:
    """One member of a request, or one element of a list in it, masked."""

    digest: bytes
    ids: tuple[str, ...]
    """What stood where ids were masked, in a fixed order."""


@dataclass(frozen=True)
class Shape:
    """A whole request, masked; two are equal where they differ in nothing but what the rules cover."""

    digest: bytes
    pieces: tuple[bytes, ...]


class Masker:
    """Remembers what it masked. Not for many threads at a time."""

    def __init__(self) -> None:
        self._known: dict[bytes, Piece] = {}

    def shape(self, value: Any) -> Shape:
        """Of a parsed JSON value, or of the text of a body that is none."""
        pieces = [self._piece(key, part) for key, part in _parts(value)]
        numbers: dict[str, int] = {}
        order = [numbers.setdefault(one, len(numbers)) for piece in pieces for one in piece.ids]
        digests = tuple(piece.digest for piece in pieces)
        whole = blake2b(b"".join(digests), digest_size=_DIGEST)
        whole.update(repr(order).encode())
        return Shape(whole.digest(), digests)

    def _piece(self, key: str, part: Any) -> Piece:
        raw = f"{key}\0{_dumped(part)}".encode(errors="surrogatepass")
        known = blake2b(raw, digest_size=_DIGEST).digest()
        found = self._known.get(known)
        if found is None:
            ids: list[str] = []
            masked = _masked(part, ids, key)
            told = f"{key}\0{_dumped(masked)}".encode(errors="surrogatepass")
            found = Piece(blake2b(told, digest_size=_DIGEST).digest(), tuple(ids))
            self._known[known] = found
        return found


def parsed(body: bytes) -> Any:
    """The JSON value; the text where it is no JSON that means one thing alone (RFC 8259: a name twice)."""
    try:
        return json.loads(body, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return body.decode(errors="surrogateescape")


def masked_value(value: Any) -> Any:
    """For people, and for tests: the value with `<rule>` where a rule applies."""
    if isinstance(value, dict):
        return {key: _masked(part, [], key) for key, part in value.items()}
    return _masked(value, [], "")


def mask_text(text: str, ids: list[str] | None = None, *, said: bool = False) -> str:
    """`ids` takes what was masked by the rules that tell values apart. `said`: by the model, whose words come back as
    they were recorded.
    """
    spelt = "\\" in text
    if spelt:
        text = _SPELT.sub(lambda match: ESCAPED + _MEANT[match[1]], text)
    for rule, hint, pattern in _COMPILED:
        if (rule.of_ids or not said) and hint.search(text):
            word = f"<{rule.name}>"
            text = pattern.sub(_replacing(word, ids if rule.told_apart else None, each=rule.each), text)
    return _MEANING.sub(lambda match: _SPELLING[match[1]], text) if spelt else text


def _replacing(word: str, ids: list[str] | None, *, each: bool) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        for group in _GROUPS:
            if group in match.re.groupindex and match.start(group) >= 0:
                if ids is not None:
                    ids.append(match[group])
                start, end = match.start(group) - match.start(), match.end(group) - match.start()
                words = ", ".join([word] * (match[group].count(",") + 1)) if each else word
                return f"{match[0][:start]}{words}{match[0][end:]}"
        return match[0]

    return replaced


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """Members of an object, by name; a list's elements each, with how many there are."""
    if not isinstance(value, dict):
        yield "", value
        return
    for key in sorted(value):
        part = value[key]
        if isinstance(part, list):
            yield f"{key}[]", len(part)
            for element in part:
                yield f"{key}[]", element
        else:
            yield key, part


def _masked(value: Any, ids: list[str], top: str, *, said: bool = False) -> Any:
    """`top`: the name of the request's member that this is."""
    if isinstance(value, str):
        if top in AGENT_ID_KEYS or top in AGENT_ID_PARENTS:
            ids.append(value)
            return f"<{AGENT_ID.name}>"
        return mask_text(_PLANTED.sub(rf"<{_NOT_OURS}\1", value), ids, said=said)
    if isinstance(value, list):
        return [_masked(one, ids, top if top in AGENT_ID_PARENTS else "", said=said) for one in value]
    if isinstance(value, dict):
        # In the order of the names, so that ids are told apart alike whatever order they came in.
        said = said or _is_said(value)
        return {key: _member(value, key, ids, top, said=said) for key in sorted(value)}
    return value


def _is_said(value: dict[str, Any]) -> bool:
    """By the model: a turn of its own, or a call that it made."""
    role, kind = value.get("role"), value.get("type")
    if isinstance(role, str):
        return role in _SAYS
    if isinstance(kind, str) and kind.endswith(("_call", "tool_use")):
        return True
    function = value.get("function")
    return isinstance(function, dict) and "arguments" in function


def _member(value: dict[str, Any], key: str, ids: list[str], top: str, *, said: bool) -> Any:
    one = value[key]
    if isinstance(one, str) and (key in CALL_ID_KEYS or (key == "id" and not CALL_MEMBERS.isdisjoint(value))):
        ids.append(one)
        return f"<{CALL_ID.name}>"
    return _masked(one, ids, top if top in AGENT_ID_PARENTS else "", said=said)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that stands twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(word)
