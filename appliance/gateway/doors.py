"""One trial's door to its model: its socket, its connections, its record."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal

from appliance.gateway.answering import Answering, Terms
from appliance.gateway.budget import Ledger
from appliance.gateway.connections import AgentConnection, Incoming, Room
from appliance.gateway.credentials import SHORTEST_SECRET
from appliance.gateway.drafts import Draft
from appliance.gateway.recording import Recorder
from appliance.gateway.upstreams.cassettes import Cassettes
from appliance.ports import ExchangeWatch, Traffic

SOCKET: Final = "gateway.sock"
REPLAYED: Final = "replayed"
"""Where the cassette that answers is unpacked, among the trial's files."""
READY: Final = "/appliance/ready"
_BACKLOG: Final = 128
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})


class Door:
    """Keeps `ports.TrialGateway`. `listen` runs on the gateway's loop; all else is called from elsewhere.

    Once it is finished, the cassette and the transcript are all that is left of it on the disk.
    """

    def __init__(
        self,
        *,
        folder: Path,
        terms: Terms,
        ledger: Ledger,
        watch: ExchangeWatch | None,
        watching: ThreadPoolExecutor,
        on_loop: Callable[[Coroutine[Any, Any, None]], None],
        forget: Callable[[Door], None],
    ):
        self.folder = folder
        self._terms, self._watch, self._watching, self._on_loop = terms, watch, watching, on_loop
        self._forget = forget
        self._opened = time.monotonic()
        secrets = frozenset(secret.encode() for secret in terms.upstream.secrets if len(secret) >= SHORTEST_SECRET)
        self._recorder = Recorder(terms.folder, terms.prices_at, secrets)
        self._recording = ThreadPoolExecutor(1, thread_name_prefix="model-gateway-record")
        self._room = Room(terms.bounds.bodies_bytes)
        self._answering = Answering(
            terms, ledger, room=self._room, watched=self._watched, record=self._record, clock=self._clock
        )
        self._slots = asyncio.Semaphore(terms.bounds.connections)
        self._connections: set[AgentConnection] = set()
        self._bugs: list[BaseException] = []
        self._ready = threading.Event()
        self._over = False

    async def listen(self) -> None:
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self._socket = bound(self.folder / SOCKET)
        self._accepting = asyncio.get_running_loop().create_task(self._accept())
        self._accepting.add_done_callback(self._look)

    def wait_ready(self, timeout_seconds: float) -> bool:
        return self._ready.wait(timeout_seconds)

    def finish(self) -> Traffic:
        """Raises HostRefused where the disk took no more, and whatever a bug of ours raised meanwhile."""
        self._shut()
        recorded = self._recorder.close()
        if self._bugs:
            raise self._bugs[0]
        upstream, tally = self._terms.upstream, self._answering.tally
        self._forget(self)
        shutil.rmtree(self.folder)
        shutil.rmtree(self._terms.folder / REPLAYED, ignore_errors=True)
        return tally.traffic(
            self._recorder.cassette_path if recorded else None,
            self._recorder.transcript_path if recorded else None,
            upstream.unused if isinstance(upstream, Cassettes) else 0,
        )

    def abandon(self) -> None:
        """For a trial that nobody finishes: nothing of it is left running."""
        self._shut()

    def _shut(self) -> None:
        if self._over:
            return
        self._over = True
        self._on_loop(self._end())
        self._recording.shutdown()
        # What it was told before it has heard by now.
        self._watching.submit(_nothing).result()

    async def _end(self) -> None:
        self._accepting.cancel()
        tasks = [one.task for one in self._connections if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._accepting, *tasks, return_exceptions=True)
        self._socket.close()
        (self.folder / SOCKET).unlink(missing_ok=True)

    # ------------------------------------------------------------------------------- on the loop

    async def _accept(self) -> None:
        """No more connections than there are slots: further ones wait in the kernel's queue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._slots.acquire()
            try:
                accepted, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                self._slots.release()
                if error.errno not in _SCARCE:
                    raise
                await asyncio.sleep(0.05)
                continue
            connection = AgentConnection(
                self._terms.bounds, self._room, self._answer, self._ended, self._answering.tally.never_whole
            )
            self._connections.add(connection)
            await loop.connect_accepted_socket(lambda made=connection: made, accepted)  # type: ignore[misc]

    def _ended(self, connection: AgentConnection) -> None:
        self._connections.discard(connection)
        self._slots.release()
        if connection.task is not None:
            connection.task.add_done_callback(self._look)

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._bugs.append(error)

    async def _answer(self, incoming: Incoming, agent: AgentConnection) -> None:
        if incoming.target == READY and incoming.method == "GET":
            self._ready.set()
            agent.lifeline = True
            agent.begin(204, ())
            agent.end()
            return
        await self._answering.answer(incoming, agent)

    def _clock(self) -> float:
        return (time.monotonic() - self._opened) * 1000

    def _watched(self, moment: Literal["began", "ended"], order: int) -> Future[None] | None:
        if self._watch is None:
            return None
        told = self._watching.submit(self._watch.began if moment == "began" else self._watch.ended, order)
        told.add_done_callback(self._keep)
        return told

    def _record(self, draft: Draft, ended_ms: float) -> Future[None]:
        kept = self._recording.submit(self._recorder.add, draft.exchange(ended_ms), draft.body, draft.spool.content())
        kept.add_done_callback(self._keep)
        return kept

    def _keep(self, done: Future[None]) -> None:
        if (error := done.exception()) is not None:
            self._bugs.append(error)


def _nothing() -> None:
    return


def bound(path: Path) -> socket.socket:
    """A listening Unix socket for everybody who gets to its folder, however long the folder's name is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o666)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener
