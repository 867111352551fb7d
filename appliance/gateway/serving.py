"""The model gateway of a run: one loop on one thread, a socket a trial, one upstream, one budget over all."""

from __future__ import annotations

import asyncio
import gc
import shutil
import tempfile
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from appliance.gateway.answering import Terms
from appliance.gateway.budget import Budget, Ledger, Spent, at_most, used_up
from appliance.gateway.cassette import read_cassette
from appliance.gateway.connections import Bounds
from appliance.gateway.doors import REPLAYED, Door
from appliance.gateway.pricing import cost_of_tokens
from appliance.gateway.retries import Proven, RetryPolicy
from appliance.gateway.upstreams.cassettes import Cassettes
from appliance.gateway.upstreams.upstream import Upstream
from appliance.ports import ExchangeWatch

Given = TypeVar("Given")
_STARTS_SECONDS: Final = 10.0


class ModelGateway:
    """Keeps `ports.Gateway`; a context: its files are gone when it ends.

    `folder`: where its private folder is made (None: where temporary files lie); the engine binds folders in it into
    forwarders. `already`: what a resumed run has used. `prices_at`: the moment whose list prices count for every
    exchange (None: of each trial's opening; a replay's are those of its cassette).
    """

    def __init__(
        self,
        upstream: Upstream | None,
        *,
        model: str,
        provider: str,
        folder: Path | None = None,
        trial_budget: Budget | None = None,
        run_budget: Budget | None = None,
        already: Spent | None = None,
        prices_at: datetime | None = None,
        policy: RetryPolicy | None = None,
        bounds: Bounds | None = None,
    ):
        self._upstream, self._model, self._provider = upstream, model, provider
        self._parent = folder
        self._trial_budget = trial_budget or Budget()
        self._proven = Proven()
        self._run = Ledger(run_budget or Budget(), spent=already)
        self._prices_at = prices_at
        self._policy, self._bounds = policy or RetryPolicy(), bounds or Bounds()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-gateway", daemon=True)
        self._watching = ThreadPoolExecutor(1, thread_name_prefix="model-gateway-watch")
        self._opened: set[str] = set()
        self._doors: set[Door] = set()

    def __enter__(self) -> Self:
        # mkdtemp's are 0700: nobody else comes through it to a trial's socket.
        self._home = Path(tempfile.mkdtemp(prefix="appliance-gateway-", dir=self._parent))
        self._thread.start()
        # The prices are read once, and not in the middle of the first exchange.
        cost_of_tokens(at_most(1, 1), self._model, self._provider, datetime.now(UTC))
        # What stands by now stays: going through all of it again would hold an exchange up for tens of milliseconds.
        gc.collect()
        gc.freeze()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for door in tuple(self._doors):
                door.abandon()
            if self._upstream is not None:
                self._on_loop(self._upstream.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._watching.shutdown()
            shutil.rmtree(self._home, ignore_errors=True)
            gc.unfreeze()

    def open(self, trial: str, *, replay: Path | None = None, watch: ExchangeWatch | None = None) -> Door:
        """Raises InputRefused for a cassette that is none, ValueError for a trial that was opened before."""
        if trial in self._opened:
            raise ValueError(f"trial {trial} has a door already")
        number = len(self._opened)
        self._opened.add(trial)
        scratch = self._home / f"{number:05d}.files"
        scratch.mkdir(mode=0o700)
        upstream: Upstream | Cassettes | None = self._upstream
        moment = self._prices_at or datetime.now(UTC)
        if replay is not None:
            (scratch / REPLAYED).mkdir()
            cassette = read_cassette(replay, scratch / REPLAYED)
            upstream, moment = Cassettes(cassette), cassette.prices_at
        if upstream is None:
            raise ValueError("a gateway without an upstream only replays")
        terms = Terms(
            model=self._model,
            provider=self._provider,
            upstream=upstream,
            prices_at=moment,
            policy=self._policy,
            bounds=self._bounds,
            folder=scratch,
            run_proven=self._proven,
        )
        ledger = Ledger(self._trial_budget, self._run)
        door = Door(
            folder=self._home / f"{number:05d}",
            terms=terms,
            ledger=ledger,
            watch=watch,
            watching=self._watching,
            on_loop=self._on_loop,
            forget=self._doors.discard,
        )
        self._doors.add(door)
        self._on_loop(door.listen())
        return door

    @property
    def spent(self) -> bool:
        return used_up(self._run.budget, self._run.spent) is not None

    @property
    def run_spent(self) -> Spent:
        """By all trials so far, and before them."""
        return self._run.spent

    def _on_loop(self, work: Coroutine[Any, Any, Given]) -> Given:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
