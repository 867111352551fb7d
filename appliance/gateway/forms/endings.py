"""Where each form says what an answer used and that it is over. Pure: told of one event or document at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from appliance.gateway import usage
from appliance.gateway.exchange import WireForm
from appliance.gateway.forms.bodies import short
from appliance.gateway.forms.scan import Path, Scan
from appliance.gateway.usage import Counted, Unusable


class Ending(ABC):
    """What has been said so far."""

    wanted: ClassVar[frozenset[Path]]
    """Of an event, and of a whole answer."""
    missing: ClassVar[str]
    """What a stream that is not over lacks."""

    def __init__(self) -> None:
        self.spoke = False
        """There was a text, reasoning or call."""
        self.over = False
        """The protocol came to its end."""
        self.stop: str | None = None
        self.error: str | None = None
        self._usage: Mapping[str, Any] | None = None
        """Of the answer's end."""
        self._tier: object = None
        self._beside: str | None = None
        """What the provider charges for beside the tokens, where the answer shows it."""

    @abstractmethod
    def event(self, scan: Scan) -> None: ...

    @abstractmethod
    def document(self, scan: Scan) -> None: ...

    @abstractmethod
    def counted(self) -> Counted:
        """Raises Unusable, in words, where there is none."""

    def done(self) -> None:  # noqa: B027 - no end but chat's
        """An event that is `[DONE]`: some servers say it in every form."""

    def _note(self, scan: Scan, stop: Path, *errors: Path) -> None:
        for path in errors:
            if path in scan.seen and scan.found.get(path) is not None:
                self.error = short(str(scan.found[path]))
        found = scan.found.get(stop)
        if isinstance(found, str) and found:
            self.stop = short(found, 64)

    def _final(self) -> Mapping[str, Any]:
        if self._usage is None:
            raise Unusable("the answer doesn't say what it used")
        return self._usage

    def _priced(self, counted: Counted) -> Counted:
        return counted if self._beside is None else replace(counted, unpriced=counted.unpriced or self._beside)


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _paths(*texts: str) -> frozenset[Path]:
    return frozenset(tuple(text.split(".")) for text in texts)


def _said(scan: Scan, path: Path) -> bool:
    """There, and not empty; what was too long to be kept is not empty."""
    return path in scan.seen and (path not in scan.found or bool(scan.found[path]))


class Anthropic(Ending):
    """`message_start` says what went in, the last `message_delta` what came out: a running total, which the first's is
    not (row M3)."""

    wanted = _paths(
        "type", "message.usage", "usage", "delta.stop_reason", "stop_reason", "error.message", "content_block.type"
    )
    missing = "message_stop"

    def __init__(self) -> None:
        super().__init__()
        self._start: Mapping[str, Any] = {}

    def event(self, scan: Scan) -> None:
        kind = scan.found.get(("type",))
        self._note(scan, ("delta", "stop_reason"), ("error", "message"))
        if kind == "message_start":
            self._start = _object(scan.found.get(("message", "usage"))) or {}
        elif kind == "message_delta":
            told = _object(scan.found.get(("usage",)))
            if told is not None:
                before = self._usage or self._start
                self._usage = {**before, **{name: value for name, value in told.items() if value is not None}}
        elif kind == "message_stop":
            self.over = True
        elif kind == "content_block_delta" or scan.found.get(("content_block", "type")) == "tool_use":
            self.spoke = True

    def document(self, scan: Scan) -> None:
        self._note(scan, ("stop_reason",), ("error", "message"))
        self.over = scan.found.get(("type",)) == "message"
        self._usage = _object(scan.found.get(("usage",)))

    def counted(self) -> Counted:
        return usage.of_anthropic(self._final())


_CITED: Final = (("choices", "*", "delta", "annotations"), ("choices", "*", "message", "annotations"))
"""Where chat says which pages a search found."""


class Chat(Ending):
    """Usage stands in the last chunk, where the request asked for it; llama-server's timings always do."""

    wanted = _paths(
        *(f"choices.*.delta.{name}" for name in ("content", "tool_calls", "reasoning_content", "reasoning", "refusal")),
        "choices.*.finish_reason",
        "choices.*.delta.annotations",
        "choices.*.message.annotations",
        "usage",
        "timings",
        "service_tier",
        "error.message",
    )
    missing = "[DONE]"
    _stop: Final = ("choices", "*", "finish_reason")

    def __init__(self) -> None:
        super().__init__()
        self._timings: Mapping[str, Any] | None = None

    def event(self, scan: Scan) -> None:
        self._note(scan, self._stop, ("error", "message"))
        self.spoke = self.spoke or any(_said(scan, path) for path in scan.seen if "delta" in path and path != _CITED[0])
        self._figures(scan)

    def document(self, scan: Scan) -> None:
        self._note(scan, self._stop, ("error", "message"))
        self.over = self._stop in scan.seen
        self._figures(scan)

    def done(self) -> None:
        self.over = True

    def _figures(self, scan: Scan) -> None:
        self._usage = _object(scan.found.get(("usage",))) or self._usage
        self._timings = _object(scan.found.get(("timings",))) or self._timings
        self._tier = scan.found.get(("service_tier",)) or self._tier
        if any(_said(scan, path) for path in _CITED):
            self._beside = "web searches"

    def counted(self) -> Counted:
        if self._usage is None and self._timings is not None:
            return usage.of_timings(self._timings)
        return self._priced(usage.of_chat(self._final(), self._tier))


_OF_TOKENS_ALONE: Final = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "mcp_call",
        "shell_call",
        "tool_search_call",
    }
)
"""Calls that the agent itself makes, or that cost their tokens; the others run on the provider's machines for a fee."""


class Responses(Ending):
    wanted = _paths(
        "item.type",
        "output.*.type",
        "response.output.*.type",
        "type",
        "object",
        "status",
        "usage",
        "service_tier",
        "incomplete_details.reason",
        "error.message",
        "message",
        "response.status",
        "response.usage",
        "response.service_tier",
        "response.incomplete_details.reason",
        "response.error.message",
    )
    missing = "response.completed"
    _ended: Final = ("completed", "incomplete")

    def event(self, scan: Scan) -> None:
        kind = scan.found.get(("type",))
        if not isinstance(kind, str):
            return
        if kind.endswith(".delta") or kind == "response.output_item.done":
            self.spoke = True
            item = scan.found.get(("item", "type"))
            self._calls({item} if isinstance(item, str) else set())
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            self._end(scan, ("response",))
        elif kind == "error":
            self._note(scan, (), ("error", "message"), ("message",))
            self.error = self.error or "an error event"

    def document(self, scan: Scan) -> None:
        self._end(scan, ())

    def _end(self, scan: Scan, top: Path) -> None:
        status = scan.found.get((*top, "status"))
        self._note(scan, (*top, "status"), (*top, "error", "message"))
        reason = scan.found.get((*top, "incomplete_details", "reason"))
        if isinstance(reason, str) and reason:
            self.stop = short(reason, 64)
        self.over = status in self._ended
        self._usage = _object(scan.found.get((*top, "usage")))
        self._tier = scan.found.get((*top, "service_tier"))
        self._calls(scan.words.get((*top, "output", "*", "type"), set()))

    def _calls(self, kinds: set[str]) -> None:
        for kind in sorted(kinds - _OF_TOKENS_ALONE):
            if kind.endswith("_call"):
                self._beside = f"{short(kind, 40)} on the provider's machines"

    def counted(self) -> Counted:
        return self._priced(usage.of_responses(self._final(), self._tier))


class Gemini(Ending):
    """Every event has running totals; the last one has a reason to finish. A stream may also be one array."""

    _each: Final = (
        "usageMetadata",
        "candidates.*.finishReason",
        "promptFeedback.blockReason",
        "error.message",
        "candidates.*.content.parts.*.text",
        "candidates.*.content.parts.*.functionCall",
        "candidates.*.groundingMetadata",
    )
    wanted = _paths(*_each, *(f"*.{text}" for text in _each))
    missing = "a finishReason"

    def event(self, scan: Scan) -> None:
        self._told(scan, ())

    def document(self, scan: Scan) -> None:
        self._told(scan, ())
        self._told(scan, ("*",))

    def _told(self, scan: Scan, top: Path) -> None:
        for stop in ((*top, "candidates", "*", "finishReason"), (*top, "promptFeedback", "blockReason")):
            self._note(scan, stop, (*top, "error", "message"))
            self.over = self.over or isinstance(scan.found.get(stop), str)
        self.spoke = self.spoke or any(_said(scan, path) for path in scan.seen if "parts" in path)
        self._usage = _object(scan.found.get((*top, "usageMetadata"))) or self._usage
        if _said(scan, (*top, "candidates", "*", "groundingMetadata")):
            self._beside = "web searches"

    def counted(self) -> Counted:
        if not self.over:
            raise Unusable("the answer was cut off before its last count")
        return self._priced(usage.of_gemini(self._final()))


ENDINGS: Final[Mapping[WireForm, type[Ending]]] = {
    "anthropic": Anthropic,
    "openai-chat": Chat,
    "openai-responses": Responses,
    "gemini": Gemini,
}
