"""What the gateway answers by itself: the place, the list of models, and what it must refuse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from appliance.gateway.connections import Room
from appliance.gateway.drafts import Draft
from appliance.gateway.exchange import Asked
from appliance.gateway.forms.bodies import Malformed, TooLarge, decoded
from appliance.gateway.forms.listing import models_reply
from appliance.gateway.forms.queries import OtherModel, query_of
from appliance.gateway.forms.refusals import Reply, refusal
from appliance.gateway.forms.routes import Route, route_of

_LONGEST_TARGET: Final = 8 * 1024
_HERE: Final = Reply(200, (("content-type", "text/plain"),), b"the model gateway of this trial\n")


_Why = Literal["model", "route", "malformed", "too_large"]


@dataclass(frozen=True)
class Own:
    reply: Reply
    refused: _Why | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Wanted:
    """What an upstream is to answer. `asked`: without its content-encoding."""

    route: Route
    stream: bool
    answer_tokens: int | None
    asked: Asked


def own_answer(  # noqa: PLR0911  one an answer
    draft: Draft, model: str, most: int, too_large: str | None, room: Room
) -> Own | Wanted:
    """Fills the draft's route, query and body; what a decoded one takes of `room` is the caller's to give back.

    `most`: bytes of a decoded body; `too_large`: why the body was not taken.
    """
    asked = draft.asked
    route = draft.route = route_of(asked.method, asked.target)
    if route is None:
        if asked.method in {"GET", "HEAD"} and asked.target.partition("?")[0] == "/":
            return Own(_HERE)
        return _refused(None, "route", f"no such route: {asked.method[:20]} {asked.target[:200]}")
    if len(asked.target) > _LONGEST_TARGET:
        return _refused(route, "malformed", f"a target of more than {_LONGEST_TARGET} characters")
    if too_large is not None:
        return _refused(route, "too_large", too_large)
    try:
        body = decoded(asked, most)
        if body is not asked.body:
            if not room.take(len(body)):
                return _refused(route, "too_large", "more bytes of requests at the same time than are held")
            draft.decoded_bytes = len(body)
        draft.body = body
        plain = _plain(asked, draft.body)
        query = draft.query = query_of(route, plain)
    except Malformed as error:
        return _refused(route, _why(error), str(error))
    if route.act == "models":
        return Own(models_reply(route, model))
    if query.model != model:
        named = "no model" if query.model is None else f"the model {query.model!r}"
        return _refused(route, "model", f"{named} was asked for: this run's model is {model!r}")
    return Wanted(route, query.stream, query.answer_tokens, plain)


def _why(error: Malformed) -> _Why:
    if isinstance(error, OtherModel):
        return "model"
    return "too_large" if isinstance(error, TooLarge) else "malformed"


def _plain(asked: Asked, body: bytes) -> Asked:
    kept = tuple((name, value) for name, value in asked.headers if name != "content-encoding")
    return replace(asked, headers=kept, body=body)


def _refused(route: Route | None, why: _Why, words: str) -> Own:
    return Own(refusal(None if route is None else route.form, why, words), why, words)
