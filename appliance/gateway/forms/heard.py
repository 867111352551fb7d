"""An answer of each form, as texts and calls: of its events, or of a whole document."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Final

from appliance.gateway.exchange import WireForm
from appliance.gateway.forms.bodies import Malformed
from appliance.gateway.forms.structure import Call, arguments_text, call_of_item, chat_calls, gemini_calls, text_of

Json = dict[str, Any]
_MAX_PARTS: Final = 100_000
"""Of a text that comes in pieces, and of calls: a bound on what a server can make us hold."""


class Heard(ABC):
    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self._calls: dict[object, list[str]] = {}
        """By the place in the answer: id, name, and the arguments in pieces."""

    @abstractmethod
    def event(self, event: Json) -> None: ...

    @abstractmethod
    def document(self, answer: Json) -> None: ...

    def calls(self) -> list[Call]:
        return [Call(found[0], found[1], arguments_text("".join(found[2:]))) for found in self._calls.values()]

    def _say(self, kept: list[str], text: object) -> None:
        if isinstance(text, str) and text and len(kept) < _MAX_PARTS:
            kept.append(text)

    def _add(self, calls: Iterable[Call]) -> None:
        for call in calls:
            if len(self._calls) < _MAX_PARTS:
                self._calls[len(self._calls)] = [call.id, call.name, call.arguments]

    def _piece(self, place: object, *, id: object = None, name: object = None, arguments: object = None) -> None:
        """Of a call that comes in pieces: what is there once stands, arguments grow."""
        if place not in self._calls and len(self._calls) >= _MAX_PARTS:
            return
        call = self._calls.setdefault(place, ["", ""])
        call[0] = call[0] or _string(id)
        call[1] = call[1] or _string(name)
        if isinstance(arguments, str) and arguments and len(call) < _MAX_PARTS:
            call.append(arguments)


class _Anthropic(Heard):
    def event(self, event: Json) -> None:
        delta, block = _object(event.get("delta")), _object(event.get("content_block"))
        if block.get("type") == "tool_use":
            self._piece(_place(event), id=block.get("id"), name=block.get("name"))
        self._say(self.text, block.get("text"))
        self._say(self.text, delta.get("text"))
        self._say(self.reasoning, delta.get("thinking"))
        if "partial_json" in delta:
            self._piece(_place(event), arguments=delta["partial_json"])

    def document(self, answer: Json) -> None:
        for block in _objects(answer.get("content")):
            self._say(self.text, block.get("text"))
            self._say(self.reasoning, block.get("thinking"))
            if block.get("type") == "tool_use":
                call = Call(_string(block.get("id")), _string(block.get("name")), arguments_text(block.get("input")))
                self._add([call])


class _Chat(Heard):
    def event(self, event: Json) -> None:
        for choice in _objects(event.get("choices")):
            delta = _object(choice.get("delta"))
            self._texts(delta)
            for call in _objects(delta.get("tool_calls")):
                said = _object(call.get("function"))
                self._piece(_place(call), id=call.get("id"), name=said.get("name"), arguments=said.get("arguments"))

    def document(self, answer: Json) -> None:
        for choice in _objects(answer.get("choices")):
            message = _object(choice.get("message"))
            self._texts(message)
            try:
                self._add(chat_calls(message))
            except Malformed:
                continue

    def _texts(self, said: Json) -> None:
        self._say(self.text, text_of(said.get("content")))
        self._say(self.reasoning, said.get("reasoning_content", said.get("reasoning")))


class _Responses(Heard):
    def __init__(self) -> None:
        super().__init__()
        self._told: set[object] = set()
        """Items whose text came in pieces: it comes again as a whole."""

    def event(self, event: Json) -> None:
        kind = _string(event.get("type"))
        if kind == "response.output_text.delta":
            self._told.add(_place(event, "output_index"))
            self._say(self.text, event.get("delta"))
        elif kind in {"response.reasoning_text.delta", "response.reasoning_summary_text.delta"}:
            self._told.add(_place(event, "output_index"))
            self._say(self.reasoning, event.get("delta"))
        elif kind == "response.output_item.done":
            self._item(_object(event.get("item")), told=_place(event, "output_index") in self._told)

    def document(self, answer: Json) -> None:
        for item in _objects(answer.get("output")):
            self._item(item, told=False)

    def _item(self, item: Json, *, told: bool) -> None:
        kind = _string(item.get("type"))
        if kind == "message" and not told:
            self._say(self.text, text_of(item.get("content")))
        elif kind == "reasoning" and not told:
            self._say(self.reasoning, text_of(item.get("summary")))
        elif kind.endswith("_call"):
            self._add([call_of_item(item)])


class _Gemini(Heard):
    def event(self, event: Json) -> None:
        for candidate in _objects(event.get("candidates")):
            parts = _objects(_object(candidate.get("content")).get("parts"))
            for part in parts:
                self._say(self.reasoning if part.get("thought") is True else self.text, part.get("text"))
            self._add(gemini_calls(parts))

    def document(self, answer: Json) -> None:
        self.event(answer)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _place(event: Json, name: str = "index") -> object:
    place = event.get(name)
    return place if isinstance(place, int | str) else None


HEARD: Final[Mapping[WireForm, type[Heard]]] = {
    "anthropic": _Anthropic,
    "openai-chat": _Chat,
    "openai-responses": _Responses,
    "gemini": _Gemini,
}
