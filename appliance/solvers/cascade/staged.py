"""The reference cascade: its stages in their order, the first that has an answer gives it, each metered by itself.

Its joules are a model's word, `wall/1` of appliance/energy/estimators.py: watts x the wall time of a stage.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from appliance.energy.estimators import DEFAULT_WATTS, wall
from appliance.solvers.cascade.links import RequestRefused
from appliance.solvers.cascade.messages import (
    PROTOCOL,
    Answer,
    ClaimedUsage,
    Health,
    Resolve,
    Tier,
    Warm,
    Warmed,
)

CACHE: Final = "cache"
CACHED: Final = 1024


@dataclass(frozen=True)
class Said:
    """A stage's answer."""

    response: str
    usage: ClaimedUsage | None = None


class StageFailed(Exception):
    """The stage could not say whether it has an answer: what stands behind it let it down."""


class Stage(Protocol):
    @property
    def name(self) -> str: ...

    def answer(self, prompt: str) -> Said | None:
        """None: the next stage is to be asked. Raises StageFailed."""
        ...


class Cache:
    """Exact prompts that were answered before; the one that was longest not asked for goes first."""

    name: Final = CACHE

    def __init__(self, most: int = CACHED):
        self._most = most
        self._kept: OrderedDict[bytes, str] = OrderedDict()

    def answer(self, prompt: str) -> Said | None:
        key = self._key(prompt)
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return Said(self._kept[key])

    def keep(self, prompt: str, response: str) -> None:
        key = self._key(prompt)
        self._kept[key] = response
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    @staticmethod
    def _key(prompt: str) -> bytes:
        return sha256(prompt.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True)
class Identity:
    """What /healthz says of whoever answers."""

    name: str
    version: str | None = None
    commit: str | None = None


class StagedCascade:
    """Keeps `links.Cascade`. `clock_ns` only goes forward."""

    def __init__(
        self,
        stages: Sequence[Stage],
        identity: Identity,
        *,
        cached: int = CACHED,
        watts: float | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ):
        """`cached` 0: nothing is remembered. `watts` None: the estimator's default."""
        self._cache = Cache(cached) if cached else None
        self._stages: tuple[Stage, ...] = (*((self._cache,) if self._cache else ()), *stages)
        self._identity = identity
        self._watts = watts
        self._clock_ns = clock_ns
        self._turn = threading.Lock()

    def health(self) -> Health:
        given = "default" if self._watts is None else "given"
        return Health(
            protocol=PROTOCOL,
            name=self._identity.name,
            version=self._identity.version,
            commit=self._identity.commit,
            stages=tuple(stage.name for stage in self._stages),
            metering=f"estimator wall/1: {self._watts or DEFAULT_WATTS:g} W ({given}) x wall time of each stage",
        )

    def resolve(self, request: Resolve) -> Answer:
        """One at a time: nobody else's work stands in a stage's wall time. Raises RequestRefused (`failed`)."""
        with self._turn:
            tiers: list[Tier] = []
            for stage in self._stages:
                began = self._clock_ns()
                said = self._asked(stage, request.prompt)
                tiers.append(Tier(stage=stage.name, microjoules=self._microjoules(self._clock_ns() - began)))
                if said is not None:
                    return self._answered(request.prompt, said, tiers)
        raise RequestRefused("failed", f"none of its stages has an answer: {', '.join(tier.stage for tier in tiers)}")

    def warm(self, request: Warm) -> Warmed:
        """How many of the prompts found an answer; the others stay cold."""
        warmed = 0
        for prompt in request.prompts:
            try:
                self.resolve(Resolve(id="warm", prompt=prompt))
            except RequestRefused:
                continue
            warmed += 1
        return Warmed(warmed=warmed)

    def _asked(self, stage: Stage, prompt: str) -> Said | None:
        try:
            return stage.answer(prompt)
        except StageFailed as failed:
            raise RequestRefused("failed", f"stage {stage.name}: {failed}") from failed

    def _answered(self, prompt: str, said: Said, tiers: list[Tier]) -> Answer:
        if self._cache is not None:
            self._cache.keep(prompt, said.response)
        return Answer(
            response=said.response,
            stage=tiers[-1].stage,
            microjoules=sum(tier.microjoules for tier in tiers),
            usage=said.usage,
            tiers=tuple(tiers),
            provenance="estimator",
        )

    def _microjoules(self, wall_ns: int) -> int:
        return wall(wall_ns, self._watts).net_uj or 0
