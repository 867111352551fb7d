"""One request of an agent, from its arrival to its record.

1. What the gateway answers by itself: the place, the models, what it must refuse.
2. The budget: over it, the provider's own rate limit, and no call.
3. The slot, then the tries; before each of them the budget is looked at again.
4. The answer, passed on as it comes and kept as it passes. Its usage is counted before its end is written, so that the
   next request finds the budget as it is.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from appliance.gateway.budget import Estimate, Ledger, at_most, estimated
from appliance.gateway.connections import AgentConnection, Bounds, Incoming, Lost, Room
from appliance.gateway.credentials import Scrub, asked_of, kept_of_answer
from appliance.gateway.drafts import CUT_OFF, LEFT_WORDS, Draft
from appliance.gateway.exchange import Headers, Refused, Try, WireForm
from appliance.gateway.forms.refusals import Reply, refusal
from appliance.gateway.own_answers import Own, Wanted, own_answer
from appliance.gateway.passing import Passing
from appliance.gateway.pricing import cost_of, cost_of_nothing, cost_of_tokens
from appliance.gateway.retries import Proven, RetryPolicy, providers_failure, wait_before_next
from appliance.gateway.spool import Spool
from appliance.gateway.tally import Tally
from appliance.gateway.upstreams.cassettes import Cassettes
from appliance.gateway.upstreams.upstream import Sent, Upstream, UpstreamFailed

_MOST_OF_AN_ERROR: Final = 1024 * 1024
_LARGE: Final = 256 * 1024


@dataclass(frozen=True)
class Terms:
    """What holds for all exchanges of one trial."""

    model: str
    provider: str
    upstream: Upstream | Cassettes
    prices_at: datetime
    policy: RetryPolicy
    bounds: Bounds
    folder: Path
    """For the answers that are long, until they are in the cassette."""
    run_proven: Proven


class Answering:
    """The exchanges of one trial; all of it runs on the gateway's loop.

    `watched` brackets what the upstream does; `record` keeps an exchange, and says when it has; `room` is what the
    bodies of all its connections may take.
    """

    def __init__(
        self,
        terms: Terms,
        ledger: Ledger,
        *,
        room: Room,
        watched: Callable[[Literal["began", "ended"], int], Future[None] | None],
        record: Callable[[Draft, float], Future[None]],
        clock: Callable[[], float],
    ):
        self._terms, self._ledger, self._room = terms, ledger, room
        self._proven = Proven()
        self._watched, self._record, self._clock = watched, record, clock
        self._scrub = Scrub(terms.upstream.secrets)
        self._orders = self._bytes = 0
        self.tally = Tally(cost_of_nothing(terms.provider))

    async def answer(self, incoming: Incoming, agent: AgentConnection) -> None:
        bounds = self._terms.bounds
        if self._orders >= bounds.exchanges or self._bytes >= bounds.recorded_bytes:
            self.tally.never_whole("refused, for the trial's exchanges are more than is recorded")
            await self._write(agent, refusal(None, "budget", "this trial has had all exchanges that are recorded"))
            return
        order = self._orders
        self._orders += 1
        asked = asked_of(incoming.method, incoming.target, incoming.headers, incoming.body, self._scrub)
        draft = Draft(order, asked, self._clock(), Spool(self._terms.folder / f"{order:05d}.response"))
        try:
            await self._answer(draft, incoming, agent)
        except (asyncio.CancelledError, Lost):
            self._interrupted(draft)
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            # What nobody thought of that an agent can say or provoke: it costs the exchange, and no trial.
            words = f"what the gateway cannot take: {type(error).__name__}"
            self.tally.faults.append(f"exchange {order}: {words}")
            await self._untaken(draft, agent, words)
        finally:
            self._release(draft)
            self._room.give(draft.decoded_bytes)
            self.tally.add(draft)
            self._bytes += len(asked.body) + draft.spool.bytes
            kept = self._record(draft, self._clock())
            if len(asked.body) + draft.decoded_bytes + draft.spool.bytes > _LARGE:
                # What is large is not asked for again before it is kept: memory holds one of them a connection.
                await asyncio.shield(asyncio.wrap_future(kept))

    async def _answer(self, draft: Draft, incoming: Incoming, agent: AgentConnection) -> None:
        own = own_answer(draft, self._terms.model, self._terms.bounds.body_bytes, incoming.too_large, self._room)
        upstream = self._terms.upstream
        if isinstance(own, Own):
            await self._say(draft, agent, own.reply, own.refused, own.detail)
        elif isinstance(upstream, Cassettes):
            await self._replay(draft, own, agent, upstream)
        else:
            async with upstream.slot():
                draft.estimate = self._estimate(draft, own)
                if not await self._over_budget(draft, agent):
                    self._ledger.begin()
                    await self._watching(draft, own, agent, upstream)

    # ------------------------------------------------------------------------------- the upstream

    async def _watching(self, draft: Draft, wanted: Wanted, agent: AgentConnection, upstream: Upstream) -> None:
        try:
            if (begun := self._watched("began", draft.order)) is not None:
                await asyncio.wrap_future(begun)
            await self._tries(draft, wanted, agent, upstream)
        finally:
            self._watched("ended", draft.order)

    async def _tries(self, draft: Draft, wanted: Wanted, agent: AgentConnection, upstream: Upstream) -> None:
        """Nothing is held of the budget while one waits for the next of them."""
        policy = self._terms.policy
        while True:
            failed = await self._try(draft, wanted, agent, upstream)
            self._release(draft)
            if failed is None:
                return
            status, headers, last = failed
            wait = wait_before_next(policy, len(draft.tries), status, headers, random.random())  # noqa: S311  jitter
            if wait is None:
                detail = draft.failure and f"{draft.failure}, the last of {len(draft.tries)} tries"
                reply = last or refusal(_form(draft), "overloaded", f"no answer from the model: {draft.failure}")
                await self._say(draft, agent, reply, "provider" if draft.failure else None, detail)
                return
            await asyncio.sleep(wait)
            if await self._over_budget(draft, agent):
                draft.failure = None
                return

    async def _try(
        self, draft: Draft, wanted: Wanted, agent: AgentConnection, upstream: Upstream
    ) -> tuple[int | None, Headers, Reply | None] | None:
        """None where the agent has its answer, or the part of it that there is; else what came instead."""
        passing = Passing(draft, wanted, agent, self._scrub, self._clock)
        began = self._clock()
        broken: str | None = None
        status: int | None = None
        try:
            async with upstream.sending(wanted.asked, wanted.route, stream=wanted.stream) as sent:
                status = sent.status
                if not 200 <= status < 300:
                    reply = await self._error(sent)
                    draft.failure = providers_failure(status, reply.body, self._proven, self._terms.run_proven)
                    return status, sent.headers, reply
                await passing.run(sent, self._terms.bounds.answer_bytes)
        except UpstreamFailed as error:
            broken, status = str(error), None
            if not passing.begun:
                draft.failure = broken
                return None, (), None
        except BaseException:
            broken, status = LEFT_WORDS, None
            self._count(draft, passing, whole=False)
            if not passing.begun and draft.generates:
                # It was asked, and may cost what it may cost: nobody waited to be told.
                self._ledger.end(at_most(draft.estimate.tokens, 0), draft.estimate.usd)
            raise
        finally:
            draft.tries.append(Try(began, self._clock(), status, broken))
        self._count(draft, passing, whole=broken is None)
        if draft.answered and draft.complete:
            self._proven.answered = self._terms.run_proven.answered = True
        await self._end(draft, passing, agent, broken)
        return None

    def _estimate(self, draft: Draft, wanted: Wanted) -> Estimate:
        price = None
        if self._ledger.in_dollars:
            terms = self._terms
            price = lambda usage: cost_of_tokens(usage, terms.model, terms.provider, terms.prices_at)  # noqa: E731
        return estimated(len(draft.body), wanted.answer_tokens, price)

    async def _error(self, sent: Sent) -> Reply:
        body = bytearray()
        async for chunk in sent.chunks:
            body += chunk
            if len(body) > _MOST_OF_AN_ERROR:
                break
        clean = self._scrub.whole(bytes(body[:_MOST_OF_AN_ERROR]))
        return Reply(sent.status, kept_of_answer(sent.headers, self._scrub), clean)

    def _count(self, draft: Draft, passing: Passing, *, whole: bool) -> None:
        """`whole`: all bytes came. A stream may be complete without: some agents hang up once they read its end."""
        if not passing.reads:
            draft.complete = whole and passing.begun
            return
        terms = self._terms
        counted = passing.counted()
        if counted is not None:
            draft.cost_usd = cost_of(counted, terms.model, terms.provider, terms.prices_at)
        if isinstance(terms.upstream, Cassettes):
            return
        usage, cost = draft.usage, draft.cost_usd
        if usage is None:
            usage = at_most(len(draft.body), draft.spool.bytes)
            cost = cost_of_tokens(usage, terms.model, terms.provider, terms.prices_at)
        self._ledger.end(usage, cost)

    # ------------------------------------------------------------------------------- a cassette

    async def _replay(self, draft: Draft, wanted: Wanted, agent: AgentConnection, cassettes: Cassettes) -> None:
        found = await cassettes.answer(draft.asked, wanted.route)
        if isinstance(found, str):
            self.tally.divergence = self.tally.divergence or found
            words = "this request is not in the cassette that is replayed"
            await self._say(draft, agent, refusal(_form(draft), "diverged", words), "diverged", words)
            return
        draft.replay_of, draft.replay_level, draft.refused = found.order, found.level, found.refused
        draft.detail = "; ".join(found.differences) or found.detail
        self.tally.differences += found.differences + found.covered
        passing = Passing(draft, wanted, agent, self._scrub, self._clock)
        whole = False
        try:
            if found.answered:
                await passing.run(found.sent, self._terms.bounds.answer_bytes)
                whole = True
        finally:
            self._count(draft, passing, whole=whole)
        if found.left:
            # To hang up would tell the agent something new: it asks again, and nothing is recorded for that.
            draft.failure = found.failure
            await asyncio.get_running_loop().create_future()
        await self._end(draft, passing, agent, found.broken)
        if found.broken is not None:
            draft.detail = found.detail
        draft.failure = found.failure if found.failure or found.broken else draft.failure

    # ------------------------------------------------------------------------------- our own words

    def _release(self, draft: Draft) -> None:
        if draft.held:
            draft.held = False
            self._ledger.release(draft.estimate)

    async def _over_budget(self, draft: Draft, agent: AgentConnection) -> bool:
        """False: as much as it may use is held, until it is released."""
        over = await self._ledger.reserve(draft.estimate)
        draft.held = over is None
        if over is None:
            return False
        why: Refused = "budget" if over.whose == "trial" else "run_budget"
        words = f"the {over.whose}'s budget is used up: {over.words}"
        await self._say(draft, agent, refusal(_form(draft), "budget", words), why, words)
        return True

    async def _say(
        self, draft: Draft, agent: AgentConnection, reply: Reply, refused: Refused | None, detail: str | None
    ) -> None:
        draft.refused, draft.detail = refused, detail
        draft.status, draft.headers = reply.status, reply.headers
        draft.first_byte_ms = self._clock()
        if draft.asked.method != "HEAD":
            draft.spool.add(reply.body)
        await self._write(agent, reply, head_only=draft.asked.method == "HEAD")
        draft.complete, draft.cut = True, False

    async def _write(self, agent: AgentConnection, reply: Reply, *, head_only: bool = False) -> None:
        length = ("content-length", str(len(reply.body)))
        agent.begin(reply.status, (*(pair for pair in reply.headers if pair[0] != length[0]), length))
        if not head_only:
            await agent.send(reply.body)
        agent.end()

    async def _end(self, draft: Draft, passing: Passing, agent: AgentConnection, broken: str | None) -> None:
        """`broken`: why these were not all bytes."""
        if broken is not None:
            draft.complete, draft.detail, draft.failure = False, f"{CUT_OFF}{broken}", broken
            agent.cut()
            return
        await agent.send(passing.last)
        agent.end()
        draft.cut = False
        if draft.answered and not draft.complete:
            draft.failure = f"the answer has no end: {draft.detail or 'nothing says why'}"

    async def _untaken(self, draft: Draft, agent: AgentConnection, words: str) -> None:
        if draft.first_byte_ms is None:
            await self._say(draft, agent, refusal(_form(draft), "malformed", words), "malformed", words)
        else:
            draft.complete, draft.detail = False, f"{CUT_OFF}{words}"
            agent.cut()

    def _interrupted(self, draft: Draft) -> None:
        """The agent hung up, or the trial is over. A try that failed before stays the provider's failure."""
        if draft.complete:
            draft.cut = False
            return
        draft.detail = draft.detail or "left by the agent before its end, or the trial was over"


def _form(draft: Draft) -> WireForm | None:
    return None if draft.route is None else draft.route.form
