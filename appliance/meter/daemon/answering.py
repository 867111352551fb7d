"""A request to its answer: the book does it, and what has to wait (a release, for its cgroups to go) waits here."""

from __future__ import annotations

import os
from dataclasses import dataclass

from appliance.meter.daemon.given import Given
from appliance.meter.daemon.handles import Peer
from appliance.meter.daemon.looking import log
from appliance.meter.daemon.messages import (
    Close,
    Open,
    Prepare,
    Refused,
    Release,
    Request,
    StatusAnswer,
    Watch,
    WatchLine,
    encode,
    refusal,
    refused_by_the_host,
)
from appliance.meter.daemon.parsing import parse
from appliance.meter.daemon.peers import Connection, TooLong
from appliance.meter.daemon.placing import Places
from appliance.meter.daemon.releasing import Reader, Releasing, cpu_after_close_ns, cpu_seconds
from appliance.meter.daemon.sampling import Sampler
from appliance.meter.daemon.watch_lines import Watching
from appliance.meter.daemon.windows import Book, moment


@dataclass(frozen=True)
class Meter:
    """What one daemon is made of."""

    version: str
    sampler: Sampler
    places: Places
    reader: Reader
    watching: Watching


class Desk:
    """Where requests are answered."""

    def __init__(self, meter: Meter):
        self.meter = meter
        self.book = Book(meter.sampler, meter.places)
        self.given = Given()
        self._started_at = moment()
        self._releasing: dict[Connection, Releasing] = {}

    def waits(self, connection: Connection) -> bool:
        """For a release that it asked for; its next request waits too."""
        return connection in self._releasing

    def answer(self, connection: Connection, line: bytes | TooLong, watchers: int) -> None:
        """Whatever is asked, the daemon and the connection stay."""
        try:
            self._act(connection, _parsed(line), watchers)
        except Refused as refused:
            connection.send(refusal(refused))
        except OSError as error:
            log(f"refused: {error}")
            connection.send(refusal(refused_by_the_host(error, "this host")))
        try:
            self.book.write_edges()
        except OSError as error:
            log(f"an edge's lines: {error}")

    def _act(self, connection: Connection, asked: Request, watchers: int) -> None:
        peer = Peer(connection.number, connection.uid)
        match asked:
            case Prepare():
                connection.send(encode(self.book.prepare(asked, peer)))
            case Open():
                self._refuse_when_full()
                connection.send(encode(self.book.open(asked, peer)))
            case Close():
                connection.send(encode(self.book.close(asked.window, peer)))
            case Release():
                self._release(connection, asked, peer)
            case Watch():
                connection.watching = True
                connection.send(encode(self.first_line()))
            case _:
                connection.send(encode(self._status(watchers)))

    def first_line(self) -> WatchLine:
        """What a watcher is told at once, with who is on the GPUs now."""
        self.meter.sampler.freshen()
        states = tuple(self.meter.sampler.gpu_states())
        return self.meter.watching.line(states, self.book.open_windows)

    def next_line(self) -> WatchLine:
        """A second later: with what happened since."""
        sampler = self.meter.sampler
        if not sampler.open:
            # Else the samples see to both.
            sampler.freshen()
            self.book.renew()
        events = tuple(sampler.news)
        sampler.news.clear()
        return self.meter.watching.line(events, self.book.open_windows)

    def finish_releases(self) -> list[Connection]:
        """Answers those whose cgroups are gone, or will not go; and says whom."""
        answered: list[Connection] = []
        for connection, releasing in list(self._releasing.items()):
            if not releasing.is_out():
                continue
            del self._releasing[connection]
            try:
                answer, fd = releasing.answer(self.meter.reader, self.given)
                connection.send(encode(answer), fd)
            except OSError as error:
                log(f"readings lost: {error}")
                connection.send(refusal(refused_by_the_host(error, "no room for the readings")))
            self.book.forget(releasing.handle)
            answered.append(connection)
        return answered

    def part(self, connection: Connection) -> None:
        """It is gone; of a release that was under way nobody takes the readings any more."""
        under_way = self._releasing.pop(connection, None)
        if under_way is not None:
            self.book.forget(under_way.handle)
        self.book.client_died(connection.number)

    def _refuse_when_full(self) -> None:
        store = self.meter.sampler.store
        if store.full:
            held = store.total_bytes // 2**20
            raise Refused("too_many", f"{held} MiB of readings are not released yet: no window is opened beside them")

    def _release(self, connection: Connection, asked: Release, peer: Peer) -> None:
        handle = self.book.handle(asked.handle, peer)
        self.book.close_window(handle)
        after_ns = cpu_after_close_ns(handle, self.meter.reader.cpu)
        self.book.take_out(handle)
        removal = self.meter.places.remove(handle.placed)
        self._releasing[connection] = Releasing(
            handle, after_ns, lambda: self.meter.places.is_out(removal), lambda: bool(removal.left)
        )
        self.meter.places.step()
        self.finish_releases()

    def _status(self, watchers: int) -> StatusAnswer:
        looker = self.meter.sampler.looker
        return StatusAnswer(
            version=self.meter.version,
            counters=looker.zones,
            absent=looker.absent,
            windows=self.book.open_windows,
            handles=len(self.book.handles),
            watchers=watchers,
            gaps=dict(looker.gaps),
            cpu_seconds=cpu_seconds(),
            period_ns=self.meter.sampler.period_ns,
            cpu_unit=looker.cpu.unit,
            started_at=self._started_at,
            pid=os.getpid(),
            discovery=self.meter.watching.discovery,
        )


def _parsed(line: bytes | TooLong) -> Request:
    if isinstance(line, TooLong):
        raise Refused("bad_message", "a message is one line of at most 64 KiB")
    return parse(line)
