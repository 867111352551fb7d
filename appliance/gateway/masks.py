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

from appliance.digests import sha256_hex
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
_LONG: Final = 1024 * 1024
"""Characters of a text."""
_NAME: Final = 60
"""Characters that are told of a member's odd name."""
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
    """What a value's texts were, in the order in which they were masked."""

    ids: list[str] = field(default_factory=list)
    """What stood where a rule that tells values apart applied."""
    texts: list[tuple[str, Rule | None, bool]] = field(default_factory=list)
    """Each text, the rule of JSON that took it whole, and whether the model said it."""

    def whole(self, rule: Rule, text: str) -> str:
        """What stands there instead."""
        self.ids.append(text)
        self.texts.append((text, rule, False))
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
        name, place = (key[:-2], f"[{at - 1}]") if key.endswith("[]") else (key, "")
        path = f"$.{name if name.isidentifier() else repr(name[:_NAME])}{place}" if name else "$"
        before, after = Taken(), Taken()
        _masked(one, before, key)
        _masked(other, after, key)
        for (old, rule, said), (new, _, _) in zip(before.texts, after.texts, strict=False):
            places = ((rule.name, old),) if rule else _places(old, said=said)
            others = ((rule.name, new),) if rule else _places(new, said=said)
            for (by, was), (_, now_is) in zip(places, others, strict=False) if old != new else ():
                if was != now_is:
                    yield path, by, was, now_is


def _places(text: str, *, said: bool) -> tuple[tuple[str, str], ...]:
    """What `mask_text` takes out of a text, in its order: rule and words. Of a place within another, the outer one
    alone; of a text that is too long to be looked through by its characters, only that it was masked."""
    if len(text) > _LONG:
        return (("some rule", f"{len(text)} characters, sha256 {sha256_hex(text.encode(errors='surrogatepass'))}"),)
    text = _SPELT.sub(lambda match: ESCAPED + _MEANT[match[1]], _marked(text))
    origin, marks = list(text), [""] * len(text)
    for rule, hint, pattern in _COMPILED:
        if not (rule.of_ids or not said) or not hint.search(text):
            continue
        at, put, came, named = 0, "", list[str](), list[str]()
        for start, end, word in (
            (*match.span(group), _word(rule, match[group])) for match, group in _found(pattern, text)
        ):
            put += text[at:start] + word
            came += [*origin[at:start], "".join(origin[start:end]), *[""] * (len(word) - 1)]
            named += [*marks[at:start], rule.name, *[""] * (len(word) - 1)]
            at = end
        text, origin, marks = put + text[at:], came + origin[at:], named + marks[at:]
    return tuple((name, _respelt(was)) for name, was in zip(marks, origin, strict=True) if name)


def mask_text(text: str, ids: list[str] | None = None, *, said: bool = False) -> str:
    """`ids` takes what was masked by the rules that tell values apart. `said`: by the model, whose words come back as
    they were recorded.
    """
    spelt = "\\" in text
    if spelt:
        text = _SPELT.sub(lambda match: ESCAPED + _MEANT[match[1]], text)
    for rule, hint, pattern in _COMPILED:
        if (rule.of_ids or not said) and hint.search(text):
            text = pattern.sub(_replacing(rule, ids if rule.told_apart else None), text)
    return _respelt(text) if spelt else text


def _respelt(text: str) -> str:
    return _MEANING.sub(lambda match: _SPELLING[match[1]], text)


def _marked(text: str) -> str:
    """What spells a rule's own word is told from it."""
    return _PLANTED.sub(rf"<{_NOT_OURS}\1", text)


def _replacing(rule: Rule, ids: list[str] | None) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        group = _group(match)
        if group is None:
            return match[0]
        if ids is not None:
            ids.append(match[group])
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}{_word(rule, match[group])}{match[0][end:]}"

    return replaced


def _word(rule: Rule, stood: str) -> str:
    word = f"<{rule.name}>"
    return ", ".join([word] * (stood.count(",") + 1)) if rule.each else word


def _found(pattern: re.Pattern[str], text: str) -> Iterable[tuple[re.Match[str], str]]:
    return ((match, group) for match in pattern.finditer(text) if (group := _group(match)) is not None)


def _group(match: re.Match[str]) -> str | None:
    """The part that a rule's pattern is about."""
    named = match.re.groupindex
    return next((group for group in _GROUPS if group in named and match.start(group) >= 0), None)


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
            return taken.whole(AGENT_ID, value)
        taken.texts.append((value, None, said))
        return mask_text(_marked(value), taken.ids, said=said)
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
        return taken.whole(CALL_ID, one)
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
