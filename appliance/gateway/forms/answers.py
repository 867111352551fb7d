"""What an answer used and whether it came to its end, read while its bytes pass, in bounded memory.

By its first byte it is a JSON document or a stream of events, whatever was asked for: servers answer a request for a
stream with a document, too, where they refuse it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from appliance.gateway.forms.endings import ENDINGS, Ending
from appliance.gateway.forms.events import EventStream
from appliance.gateway.forms.routes import Route
from appliance.gateway.forms.scan import Scan, scanned
from appliance.gateway.usage import Counted, Unusable
from appliance.records.trial import Usage

_LEADING: Final = b" \t\r\n\xef\xbb\xbf"
_DONE: Final = b"[DONE]"
_SHORT: Final = 16 * 1024


@dataclass(frozen=True)
class Answer:
    counted: Counted | None
    complete: bool
    """False: cut off before its protocol's end, or ended by an error of the provider's in mid-stream."""
    stop: str | None
    """The provider's own word for why it stopped: `end_turn`, `tool_calls`, `MAX_TOKENS`."""
    why: str | None
    """Why there is no usage, or why it is not complete."""

    @property
    def usage(self) -> Usage | None:
        return None if self.counted is None else self.counted.usage


class AnswerReader:
    """Fed the answer's body as it came (no content-encoding), in pieces of any size."""

    def __init__(self, route: Route, stream: bool):
        """`stream`: whether one was asked for; it decides nothing but how a missing usage is explained."""
        self._route = route
        self._stream = stream
        self._ending = ENDINGS[route.form]()
        self._sink = _Sink(self._ending)
        self._document: Scan | None = None
        self._events: EventStream | None = None

    @property
    def first_token(self) -> bool:
        """Whether the first text, reasoning or call has been seen; of a document, whether it has begun."""
        return self._ending.spoke or self._document is not None

    @property
    def began(self) -> bool:
        """Whether a model has said anything here; of a document, whether it is a model's. Ask after `finish`."""
        return self._ending.spoke or (self._document is not None and self._ending.over)

    def feed(self, chunk: bytes) -> None:
        if self._document is None and self._events is None:
            chunk = chunk.lstrip(_LEADING)
            if not chunk:
                return
            if chunk[:1] in {b"{", b"["}:
                self._document = Scan(self._ending.wanted)
            else:
                self._events = EventStream(self._sink)
        if self._document is not None:
            self._document.feed(chunk)
        elif self._events is not None:
            self._events.feed(chunk)

    def finish(self) -> Answer:
        """Call once, after the last piece."""
        if self._document is not None:
            self._ending.document(self._document)
        elif self._events is not None:
            self._events.finish()
        cut = self._cut()
        if self._route.act != "generate":
            return Answer(None, cut is None, None, cut)
        try:
            return Answer(self._ending.counted(), cut is None, self._ending.stop, cut)
        except Unusable as error:
            return Answer(None, cut is None, self._ending.stop, cut or self._explained(str(error)))

    def _cut(self) -> str | None:
        if self._document is None and not self._sink.events:
            return "no answer" if self._events is None else "neither JSON nor server-sent events"
        if self._ending.error is not None:
            return f"an error in the answer: {self._ending.error}"
        if self._document is not None and (self._document.broken or not self._document.ended):
            return "cut off in the middle of its JSON"
        if self._route.act == "generate" and not self._ending.over:
            return f"cut off before {self._ending.missing}"
        return None

    def _explained(self, why: str) -> str:
        if self._stream and self._route.form == "openai-chat" and self._events is not None:
            return f"{why}: a stream does so where the request sets stream_options.include_usage"
        return why


class _Sink:
    """An event's data is read at once where it is short, as nearly all are; else as it comes, by a scan of its own."""

    def __init__(self, ending: Ending):
        self._ending = ending
        self._scan: Scan | None = None
        self._short = bytearray()
        self._begun = False
        self.events = 0

    def data(self, piece: bytes) -> None:
        self._begun = True
        if self._scan is None and len(self._short) + len(piece) <= _SHORT:
            self._short += piece
            return
        if self._scan is None:
            self._scan = Scan(self._ending.wanted)
            self._scan.feed(bytes(self._short))
            self._short.clear()
        self._scan.feed(piece)

    def dispatch(self) -> None:
        scan, self._scan = self._scan, None
        whole, begun, self._begun = bytes(self._short), self._begun, False
        self._short.clear()
        if not begun:
            return
        if scan is None and whole.strip() == _DONE:
            self.events += 1
            self._ending.done()
            return
        scan = scan or scanned(whole, self._ending.wanted)
        if scan.ended and not scan.broken:
            self.events += 1
            self._ending.event(scan)
