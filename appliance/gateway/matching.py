"""Which recorded exchange answers a request, and how alike the two are (row M14).

`exact`: method, target, the headers of RELEVANT_HEADERS and the body's bytes. `masked`: the same after the rules of
masks-v1, the body's content-encoding undone and the order of its members left out. `structural`: the same once more
with what tools gave left out, each difference of it listed. Every recorded exchange answers once; of several that match
at the best level, the first that was recorded does.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from appliance.gateway.cassette import Cassette, Recorded
from appliance.gateway.cassette_shapes import RecordedExchange
from appliance.gateway.divergence import Covered, Differences, diff, request_lines
from appliance.gateway.exchange import Asked, Headers, Refused, ReplayLevel
from appliance.gateway.forms.bodies import Malformed, decoded
from appliance.gateway.forms.routes import Route
from appliance.gateway.masks import Masker, Shape, parsed
from appliance.gateway.tool_results import without_results

RELEVANT_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "anthropic-version", "anthropic-beta", "openai-beta"}
)
"""What a provider's answer depends on. All others (user-agent, host, accept, x-stainless-*, ...) are not compared."""
_ANSWERABLE: Final[frozenset[Refused | None]] = frozenset({None, "budget", "run_budget", "provider"})
LEVELS: Final[tuple[ReplayLevel, ...]] = ("exact", "masked", "structural")
"""The highest first."""

_Key = tuple[str, str, Headers, Literal["generate", "count_tokens", "models"]]


@dataclass(frozen=True)
class Match:
    recorded: Recorded
    level: ReplayLevel
    differences: tuple[str, ...] = ()
    """Of tools' results, where `level` is structural; each is told once, though every later request holds it again."""
    covered: tuple[str, ...] = ()
    """By the masks, where it was not as recorded; each told once, too."""

    @property
    def order(self) -> int:
        return self.recorded.told.order


@dataclass(frozen=True)
class Diverged:
    diff: str
    """Unified, after the masks, against the closest recorded request; bounded."""
    closest: int | None
    """Its order; None where nothing was recorded."""


@dataclass(frozen=True)
class Own:
    """No model would have been asked: the gateway answers as it always does."""


class Replay:
    """The answers of one trial's cassette, each given once. Many threads may ask."""

    def __init__(self, cassette: Cassette):
        self._lock = threading.Lock()
        self._masker = Masker()
        self._listed = Differences(self._masker)
        self._covered = Covered()
        self._recorded = {one.told.order: one for one in cassette.exchanges if answerable(one.told)}
        self._unused = dict.fromkeys(self._recorded)
        self._shapes: dict[tuple[int, ReplayLevel], Shape | None] = {}
        self._lowest: ReplayLevel | None = None
        self._exact: dict[tuple[_Key, str], list[int]] = {}
        for order, one in self._recorded.items():
            key = (_key(one.told.method, one.told.target, one.told.headers, one.told.act), one.told.request.sha256)
            self._exact.setdefault(key, []).append(order)

    @property
    def unused(self) -> tuple[int, ...]:
        """Orders of the exchanges with a model that nobody asked for again."""
        with self._lock:
            return tuple(self._unused)

    @property
    def lowest(self) -> ReplayLevel | None:
        """None until something matched."""
        with self._lock:
            return self._lowest

    def answer(self, asked: Asked, route: Route | None) -> Match | Diverged | Own:
        if route is None or route.act == "models":
            return Own()
        with self._lock:
            return self._answer(asked, route)

    def _answer(self, asked: Asked, route: Route) -> Match | Diverged:
        key = _key(asked.method, asked.target, asked.headers, route.act)
        sha256 = hashlib.sha256(asked.body).hexdigest()
        same = next((order for order in self._exact.get((key, sha256), ()) if order in self._unused), None)
        if same is not None:
            return self._given(same, "exact")
        value = _value(asked)
        for level in ("masked", "structural"):
            shape = self._shape(asked, value, route, level)
            for order in self._unused:
                if self._recorded_shape(order, level) == shape:
                    differing = self._differences(order, route, value, level)
                    return self._given(order, level, differing, self._covering(order, asked, value, route, level))
        return self._diverged(asked, value, route)

    def _given(
        self, order: int, level: ReplayLevel, differing: tuple[str, ...] = (), covered: tuple[str, ...] = ()
    ) -> Match:
        del self._unused[order]
        levels = [one for one in (self._lowest, level) if one is not None]
        self._lowest = max(levels, key=LEVELS.index)
        return Match(self._recorded[order], level, differing, covered)

    def _shape(self, asked: Asked, value: Any, route: Route, level: ReplayLevel) -> Shape:
        shape = self._masker.shape(_body(value, route, level))
        return Shape(self._masker.shape(_around(asked, route)).digest + shape.digest, shape.pieces)

    def _recorded_shape(self, order: int, level: ReplayLevel) -> Shape | None:
        """Made on first use and kept: a replay that is exact throughout makes none."""
        if (order, level) not in self._shapes:
            asked, route = self._asked(order)
            self._shapes[order, level] = self._shape(asked, _value(asked), route, level)
        return self._shapes[order, level]

    def _asked(self, order: int) -> tuple[Asked, Route]:
        told = self._recorded[order].told
        if told.form is None or told.act is None:
            raise AssertionError("only exchanges with a form are kept")
        return self._recorded[order].asked, Route(told.form, told.act)

    def _differences(self, order: int, route: Route, value: Any, level: ReplayLevel) -> tuple[str, ...]:
        if level != "structural":
            return ()
        recorded = _value(self._asked(order)[0])
        return self._listed.between(without_results(route.form, recorded)[1], without_results(route.form, value)[1])

    def _covering(self, order: int, asked: Asked, value: Any, route: Route, level: ReplayLevel) -> tuple[str, ...]:
        then, _ = self._asked(order)
        recorded = _body(_value(then), route, level)
        return (
            *self._covered.between(_around(then, route), _around(asked, route)),
            *self._covered.between(recorded, _body(value, route, level)),
        )

    def _diverged(self, asked: Asked, value: Any, route: Route) -> Diverged:
        now = request_lines(asked, value)
        closest = self._closest(self._shape(asked, value, route, "masked"))
        if closest is None:
            return Diverged(diff([], now, "nothing"), None)
        recorded, _ = self._asked(closest)
        return Diverged(diff(request_lines(recorded, _value(recorded)), now, f"{closest:05d}"), closest)

    def _closest(self, shape: Shape) -> int | None:
        """With the most members in common; of those nobody asked for yet, if there is one."""
        orders: Iterable[int] = self._unused or self._recorded
        pieces = set(shape.pieces)

        def common(order: int) -> tuple[int, int]:
            recorded = self._recorded_shape(order, "masked")
            found = recorded.pieces if recorded else ()
            return sum(piece in pieces for piece in found) - abs(len(found) - len(shape.pieces)), -order

        return max(orders, key=common, default=None)


def answerable(told: RecordedExchange) -> bool:
    """Whether a replay gives it again; everything else the gateway says anew by itself."""
    return told.act in {"generate", "count_tokens"} and told.refused in _ANSWERABLE


def _key(method: str, target: str, headers: Headers, act: Any) -> _Key:
    return method, target, _relevant(headers), act


def _body(value: Any, route: Route, level: ReplayLevel) -> Any:
    return without_results(route.form, value)[0] if level == "structural" else value


def _around(asked: Asked, route: Route) -> dict[str, Any]:
    return {
        "method": asked.method,
        "target": asked.target,
        "act": route.act,
        "headers": _relevant(asked.headers, but="content-encoding"),
    }


def _relevant(headers: Headers, but: str = "") -> Headers:
    return tuple(sorted((name, value) for name, value in headers if name in RELEVANT_HEADERS and name != but))


def _value(asked: Asked) -> Any:
    try:
        return parsed(decoded(asked))
    except Malformed:
        return parsed(asked.body)
