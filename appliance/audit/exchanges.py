"""One exchange of a cassette, judged by its bytes: what exchange.json says of it decides nothing.

Form and act follow from the request's method and target, the model from the request, tokens from the answer. An answer
that holds a usage counts, whatever status or refusal is written beside it; and what is called the gateway's own words
has to be, byte for byte, what the gateway says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appliance.audit.plans import short
from appliance.gateway.cassette_shapes import RecordedExchange
from appliance.gateway.exchange import Refused as Refusal
from appliance.gateway.exchange import WireForm, left_unanswered
from appliance.gateway.forms.answers import Answer, AnswerReader
from appliance.gateway.forms.bodies import Malformed, decoded
from appliance.gateway.forms.endings import ENDINGS
from appliance.gateway.forms.refusals import Kind, refusal
from appliance.gateway.forms.routes import Route, route_of
from appliance.gateway.forms.scan import Scan
from appliance.gateway.unpacking import Unpacked
from appliance.gateway.usage import Counted
from appliance.records.trial import Usage
from attest.errors import Refused

_OWN: Final[Mapping[Refusal, Kind]] = {
    "model": "model",
    "route": "route",
    "malformed": "malformed",
    "too_large": "too_large",
    "budget": "budget",
    "run_budget": "budget",
    "diverged": "diverged",
}
"""What the gateway says by itself. `provider` is not of these: that is the provider's error, whatever it says."""
_MOST_OF_A_REFUSAL: Final = 1024 * 1024
_MODEL: Final = ("model",)


@dataclass(frozen=True)
class Counting:
    """One answer of the model's, and what its price is made of; also one that was asked for, and left before a byte of
    it: what that used nobody knows.
    """

    told: RecordedExchange
    counted: Counted | None

    @property
    def usage(self) -> Usage | None:
        return None if self.counted is None else self.counted.usage


def counting(one: Unpacked, model: str | None, here: str) -> Counting | None:
    """None where no model answered. Reads the whole of `one.response`. Raises Refused (aggregate), naming the exchange.

    `model`: the plan's. `here`: the trial's place in the record.
    """
    told, place = one.told, f"{here}.cassette: {one.told.order:05d}"
    route = route_of(told.method, told.target)
    if (told.form, told.act) != ((route.form, route.act) if route else (None, None)):
        words = f"the form {told.form} and the act {told.act}, asked at {short(told.target)}"
        raise Refused("aggregate", f"an exchange in {words}", where=place)
    if route is None or not _is_called_an_answer(told):
        _is_none(one, route, place)
        return Counting(told, None) if _is_left_unanswered(told) else None
    answer = _read(one, route)
    _is_of_the_model(one, route, model, place)
    if answer.usage != told.usage:
        words = f"{words_of(told.usage)} stated, {words_of(answer.usage)} in the answer"
        raise Refused("aggregate", words, where=place)
    if told.complete and not answer.complete:
        raise Refused("aggregate", f"complete, it says, and its answer was {short(answer.why)}", where=place)
    return Counting(told, answer.counted)


def _is_called_an_answer(told: RecordedExchange) -> bool:
    return told.act == "generate" and told.refused is None and 200 <= told.status < 300


def _is_left_unanswered(told: RecordedExchange) -> bool:
    return left_unanswered(
        generates=told.act == "generate",
        status=told.status,
        refused=told.refused,
        tries=told.tries,
        replay_of=told.replay_of,
    )


def _read(one: Unpacked, route: Route) -> Answer:
    reader = AnswerReader(route, one.told.stream)
    for chunk in one.response:
        reader.feed(chunk)
    return reader.finish()


def _is_none(one: Unpacked, route: Route | None, place: str) -> None:
    """In none of the four forms do its bytes hold what a model said; the target may have been written anew, too."""
    told = one.told
    readers = [AnswerReader(Route(form, "generate"), told.stream) for form in ENDINGS]
    kept = bytearray()
    for chunk in one.response:
        if len(kept) <= _MOST_OF_A_REFUSAL:
            kept += chunk
        for reader in readers:
            reader.feed(chunk)
    called = f"refused ({told.refused})" if told.refused else f"{told.act or 'no route'}, status {told.status}"
    for reader in readers:
        answer = reader.finish()
        if answer.usage is not None or reader.began:
            words = f"called {called}, and a model's answer of {words_of(answer.usage)} is in it"
            raise Refused("aggregate", words, where=place)
    if told.usage is not None or told.cost_usd is not None:
        raise Refused("aggregate", f"called {called}, and tokens or dollars are stated for it", where=place)
    kind = _OWN.get(told.refused) if told.refused else None
    if kind is not None and told.method != "HEAD" and not _is_own(told, kind, route, bytes(kept)):
        raise Refused("aggregate", f"called {called}, and these are not the gateway's words for it", where=place)


def _is_own(told: RecordedExchange, kind: Kind, route: Route | None, body: bytes) -> bool:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return False
    form: WireForm | None = None if route is None else route.form
    if not isinstance(message, str):
        return False
    reply = refusal(form, kind, message)
    return (told.status, body) == (reply.status, reply.body)


def _is_of_the_model(one: Unpacked, route: Route, model: str | None, place: str) -> None:
    for named, whose in ((one.told.model, "answered"), (_asked_for(one, route), "was asked for")):
        if named != model:
            words = f"{short(named)} {whose}, and the plan has {short(model)}"
            raise Refused("aggregate", words, where=place)


def _asked_for(one: Unpacked, route: Route) -> Any:
    """Gemini's path names it; elsewhere the body does, of which nothing else is held."""
    if route.form == "gemini":
        return route.model
    try:
        body = decoded(one.told.asked(one.request))
    except Malformed:
        return None
    scan = Scan(frozenset({_MODEL}))
    scan.feed(body)
    return scan.found.get(_MODEL)


def words_of(usage: Usage | None) -> str:
    if usage is None:
        return "no tokens"
    parts: Iterator[tuple[str, Any]] = ((name, getattr(usage, name)) for name in Usage.model_fields)
    return ", ".join(f"{count} {name.removesuffix('_tokens').replace('_', ' ')}" for name, count in parts if count) or (
        "0 tokens"
    )
