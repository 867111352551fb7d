"""Requests with what may differ taken out: equal where the listed rules cover all that differs. Pure.

JSON is compared by its values, whatever the order of its members. A list of messages is masked element by element, and
each element once: a history that grows costs what it grew by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
    Rule,
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


@dataclass
class Taken:
    """What the rules took out of a value, in the order in which they did."""

    ids: list[str] = field(default_factory=list)
    """Of the rules that tell values apart."""
    places: list[tuple[str, str]] = field(default_factory=list)
    """Of all: the rule, and what stood there."""

    def put(self, rule: Rule, stood: str) -> str:
        """What stands there instead."""
        self.places.append((rule.name, stood))
        if rule.told_apart:
            self.ids.append(stood)
        return f"<{rule.name}>"


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
            taken = Taken()
            masked = _masked(part, taken, key)
            told = f"{key}\0{_dumped(masked)}".encode(errors="surrogatepass")
            found = Piece(blake2b(told, digest_size=_DIGEST).digest(), tuple(taken.ids))
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
        return {key: _masked(part, Taken(), key) for key, part in value.items()}
    return _masked(value, Taken(), "")


def taken_apart(recorded: Any, now: Any, known: set[bytes]) -> Iterable[tuple[str, str, str, str]]:
    """Of two values whose shapes are equal: path of the member, rule, what stood there in the one and in the other.

    `known`: pairs of members that were looked at, which are not again.
    """
    seen: dict[str, int] = {}
    for (key, one), (_, other) in zip(_parts(recorded), _parts(now), strict=True):
        at = seen[key] = seen.get(key, -1) + 1
        if one == other:
            continue
        pair = f"{key}\0{_dumped(one)}\0{_dumped(other)}".encode(errors="surrogatepass")
        digest = blake2b(pair, digest_size=_DIGEST).digest()
        if digest in known:
            continue
        known.add(digest)
        # The first of a list is how many there are.
        path = f"$.{key[:-2]}[{at - 1}]" if key.endswith("[]") else f"$.{key}".rstrip(".")
        before, after = Taken(), Taken()
        _masked(one, before, key)
        _masked(other, after, key)
        for (rule, old), (_, new) in zip(before.places, after.places, strict=False):
            if old != new:
                yield path, rule, old, new


def mask_text(text: str, taken: Taken | None = None, *, said: bool = False) -> str:
    """`said`: by the model, whose words come back as they were recorded."""
    taken = Taken() if taken is None else taken
    spelt = "\\" in text
    if spelt:
        text = _SPELT.sub(lambda match: ESCAPED + _MEANT[match[1]], text)
    for rule, hint, pattern in _COMPILED:
        if (rule.of_ids or not said) and hint.search(text):
            text = pattern.sub(_replacing(rule, taken), text)
    return _MEANING.sub(lambda match: _SPELLING[match[1]], text) if spelt else text


def _replacing(rule: Rule, taken: Taken) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        for group in _GROUPS:
            if group in match.re.groupindex and match.start(group) >= 0:
                word = taken.put(rule, match[group])
                start, end = match.start(group) - match.start(), match.end(group) - match.start()
                words = ", ".join([word] * (match[group].count(",") + 1)) if rule.each else word
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


def _masked(value: Any, taken: Taken, top: str, *, said: bool = False) -> Any:
    """`top`: the name of the request's member that this is."""
    if isinstance(value, str):
        if top in AGENT_ID_KEYS or top in AGENT_ID_PARENTS:
            return taken.put(AGENT_ID, value)
        return mask_text(_PLANTED.sub(rf"<{_NOT_OURS}\1", value), taken, said=said)
    if isinstance(value, list):
        return [_masked(one, taken, top if top in AGENT_ID_PARENTS else "", said=said) for one in value]
    if isinstance(value, dict):
        # In the order of the names, so that ids are told apart alike whatever order they came in.
        said = said or _is_said(value)
        return {key: _member(value, key, taken, top, said=said) for key in sorted(value)}
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


def _member(value: dict[str, Any], key: str, taken: Taken, top: str, *, said: bool) -> Any:
    one = value[key]
    if isinstance(one, str) and (key in CALL_ID_KEYS or (key == "id" and not CALL_MEMBERS.isdisjoint(value))):
        return taken.put(CALL_ID, one)
    return _masked(one, taken, top if top in AGENT_ID_PARENTS else "", said=said)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that stands twice")
    return found


def _refuse(word: str) -> Any:
    raise ValueError(word)
