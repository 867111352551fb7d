"""The connection to the meter of a run; whoever needs it next reaches it anew once it is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from appliance import mends
from appliance.errors import HostRefused, MeterRefused
from appliance.meter.client import VERSION, MeterClient
from appliance.meter.counters.search import CounterSearch, counters_of

GONE: Final = "gone"
UNREACHED: Final = frozenset({GONE, "no_meter", "PrivilegeRequired"})
"""The client's reasons for a meter that is no more, or that we did not reach: a socket that was just made is closed
for a moment, till it is given to its group."""
_PATIENCE_SECONDS: Final = 5.0
"""How long a meter that went away may take to come back: what a service's restart takes, and some."""
_BETWEEN_SECONDS: Final = 0.1


class MeterLine:
    """One client at a time, of many threads."""

    def __init__(self, connect: Callable[[], MeterClient], where: str):
        """Raises MeterRefused, also for a meter of another version. `where`: what a refusal calls it."""
        self._connect = connect
        self._where = where
        self._lock = threading.Lock()
        self._lost = False
        self._needs_counters = False
        self._client, self._status = self._answering()

    @property
    def where(self) -> str:
        """What it is called: its socket's path, or whose child it is."""
        return self._where

    @property
    def status(self) -> Mapping[str, Any]:
        """What it said of itself when it was reached last."""
        return self._status

    @property
    def counters(self) -> CounterSearch:
        return counters_of(self._status)

    def require_counters(self) -> None:
        """From now on, a meter that comes back without a counter is none."""
        self._needs_counters = True

    def client(self) -> MeterClient:
        """Raises MeterRefused where the meter is gone and does not come back, or comes back without its counters."""
        with self._lock:
            if self._lost:
                self._client, self._status = self._again()
                self._lost = False
            return self._client

    def is_lost(self, client: MeterClient) -> bool:
        with self._lock:
            return self._lost or client is not self._client

    def lost(self, client: MeterClient) -> None:
        with self._lock:
            if client is self._client and not self._lost:
                self._lost = True
                client.close_connection()

    def close(self) -> None:
        with self._lock:
            if not self._lost:
                self._lost = True
                self._client.close_connection()

    def _again(self) -> tuple[MeterClient, Mapping[str, Any]]:
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                client, status = self._answering()
                break
            except MeterRefused as refusal:
                if refusal.reason not in UNREACHED:
                    raise
                if time.monotonic() >= until:
                    raise MeterRefused(
                        f"the meter went away and does not come back: {refusal.message}",
                        where=refusal.where,
                        mend="start it again, then go on with --resume",
                        reason=GONE,
                    ) from refusal
                time.sleep(_BETWEEN_SECONDS)
        search = counters_of(status)
        if self._needs_counters and not search.found:
            client.close_connection()
            raise MeterRefused(
                f"the meter came back without its counters: {search.reason}",
                where=self._where,
                mend=search.mend or "mend it, then go on with --resume",
                reason=search.lack,
            )
        return client, status

    def _answering(self) -> tuple[MeterClient, Mapping[str, Any]]:
        try:
            client = self._connect()
        except HostRefused as refusal:
            # The run cannot state its joules as it was asked to: that is what its exit status says.
            raise MeterRefused(
                refusal.message, where=refusal.where, mend=refusal.mend, reason=refusal.reason
            ) from refusal.__cause__
        try:
            return client, client.status()
        except MeterRefused as refusal:
            client.close_connection()
            if refusal.reason == "bad_version":
                raise MeterRefused(
                    f"it speaks another version of the protocol than ours, {VERSION}: {refusal.message}",
                    where=self._where,
                    mend=f"with this version: {mends.restart_meter()}",
                    reason="bad_version",
                ) from refusal
            refusal.where = refusal.where or self._where
            raise
