"""What was said in one exchange, for a person to read: of four forms, one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from appliance.gateway.exchange import WireForm
from appliance.gateway.forms.bodies import Malformed, clean
from appliance.gateway.forms.events import EventStream
from appliance.gateway.forms.heard import HEARD, Heard
from appliance.gateway.forms.structure import structure_of

_MAX_TEXT: Final = 256 * 1024
"""Characters of one text; the whole is in the cassette."""
_MAX_EVENT: Final = 4 * 1024 * 1024
_MAX_DOCUMENT: Final = 32 * 1024 * 1024
_LEADING: Final = b" \t\r\n\xef\xbb\xbf"


def spoken(form: WireForm, request_body: bytes, response_chunks: Iterable[bytes]) -> dict[str, Any]:
    """`{"text", "reasoning", "calls": [{"id", "name", "arguments"}], "answers": [{"id", "text"}], "truncated"}`.

    `answers`: what the tools gave that this request brought along. Never raises for what somebody sent: what cannot be
    read is left out. `request_body`: decoded.
    """
    heard = HEARD[form]()
    try:
        cut = _listen(heard, response_chunks)
    except RecursionError:
        cut = True
    bound = _Bound(cut)
    return {
        "text": bound.text("".join(heard.text)),
        "reasoning": bound.text("".join(heard.reasoning)),
        "calls": [
            {"id": bound.text(call.id), "name": bound.text(call.name), "arguments": bound.text(call.arguments)}
            for call in heard.calls()
        ],
        "answers": [{"id": bound.text(name), "text": bound.text(text)} for name, text in _answers(form, request_body)],
        "truncated": bound.cut,
    }


class _Bound:
    def __init__(self, cut: bool):
        self.cut = cut

    def text(self, text: str) -> str:
        if len(text) > _MAX_TEXT:
            self.cut = True
            text = text[:_MAX_TEXT]
        return clean(text)


def _answers(form: WireForm, request_body: bytes) -> list[tuple[str, str]]:
    """Of the turns after the assistant's last."""
    try:
        turns = structure_of(form, request_body).turns
    except Malformed:
        return []
    found: list[tuple[str, str]] = []
    for turn in reversed(turns):
        if turn.calls or turn.role in {"assistant", "model"}:
            break
        found[:0] = turn.answers
    return found


def _listen(heard: Heard, chunks: Iterable[bytes]) -> bool:
    """Whether something was too long to be read."""
    document: bytearray | None = None
    sink = _Sink(heard)
    events: EventStream | None = None
    for piece in chunks:
        chunk = piece if document is not None or events is not None else piece.lstrip(_LEADING)
        if not chunk:
            continue
        if document is None and events is None:
            if chunk[:1] in {b"{", b"["}:
                document = bytearray()
            else:
                events = EventStream(sink)
        if events is not None:
            events.feed(chunk)
        elif document is not None:
            document += chunk
            if len(document) > _MAX_DOCUMENT:
                return True
    if events is not None:
        events.finish()
    if document is not None:
        value = _json(document)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                heard.document(each)
    return sink.cut


class _Sink:
    def __init__(self, heard: Heard):
        self._heard = heard
        self._held = bytearray()
        self._over = False
        self.cut = False

    def data(self, piece: bytes) -> None:
        self._over = self._over or len(self._held) + len(piece) > _MAX_EVENT
        if not self._over:
            self._held += piece

    def dispatch(self) -> None:
        value = None if self._over else _json(self._held)
        self.cut = self.cut or self._over
        self._held.clear()
        self._over = False
        if isinstance(value, dict):
            self._heard.event(value)


def _json(content: bytearray) -> Any:
    try:
        return json.loads(bytes(content))
    except (ValueError, RecursionError):
        return None
