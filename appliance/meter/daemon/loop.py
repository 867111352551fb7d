"""The daemon's one thread: samples at their moments first, then whoever has something to say.

Sampling has absolute deadlines on CLOCK_MONOTONIC; nothing in here waits for a client, a disk or a cgroup.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Final

from appliance.energy.counter import CounterZone
from appliance.meter.daemon.answering import Desk, Meter
from appliance.meter.daemon.chores import QUIET_NS, Chores
from appliance.meter.daemon.endings import Endings
from appliance.meter.daemon.looking import counted, log, longest_period_ns, tell
from appliance.meter.daemon.messages import Refused, encode, refusal
from appliance.meter.daemon.notify import Notifier
from appliance.meter.daemon.peers import Connection, Listener
from appliance.meter.daemon.placing import CONTAINER

MOST_CONNECTIONS: Final = 512
MOST_CONNECTIONS_OF_ONE: Final = 128
KEPT_FOR_ROOT: Final = 32
"""Of all: however many users fill the others, root still asks what goes on."""
_NEW_A_TURN: Final = 32
_MESSAGES_A_TURN: Final = 1
"""Of each connection: somebody's window opens and closes behind no more than one request of everybody else's."""
_SECOND_NS: Final = 10**9
_JUST_READ: Final = 16
"""Part of a period in which an edge's sample stands for the regular one."""
_REMOVAL_NS: Final = 5_000_000
_POWER_NS: Final = 50_000_000
"""Sampled power is integrated: a counter of that kind is read at least so often (row G4)."""
_BETWEEN_LINES_NS: Final = 20_000_000
"""However many containers come."""
_SLOW_NS: Final = 10 * _SECOND_NS
"""A watcher that has not read a whole line for so long is let go."""
_IN: Final = select.EPOLLIN | select.EPOLLRDHUP


class Loop:
    """Runs till `stop` is called, or, as a child, till its last client is gone."""

    def __init__(
        self,
        meter: Meter,
        notifier: Notifier,
        *,
        listener: Listener | None,
        clients: Sequence[socket.socket] = (),
        wake_fd: int | None = None,
    ):
        self._desk = Desk(meter)
        self._sampler = meter.sampler
        self._places = meter.places
        self._watching = meter.watching
        self._notifier = notifier
        self._listener = listener
        self._wake_fd = wake_fd
        self._connections: dict[int, Connection] = {}
        self._chores = Chores(meter.sampler.store)
        self._epoll = select.epoll()
        self._endings = Endings(self._epoll)
        self._watched_endings = Endings(self._epoll)
        self._told_ns = 0
        """When the watchers had their last line."""
        self._numbers = 0
        self._stopping = False
        self._sample_ns: int | None = None
        self._passed_over = False
        """The last regular sample; never two in a row."""
        self._watch_ns: int | None = None
        self._watchdog_ns = time.monotonic_ns()
        self._deaf_until_ns: int | None = None
        self._paced_by: tuple[CounterZone, ...] | None = None
        self._pace_ns = meter.sampler.period_ns
        self._said = ""
        if listener is not None:
            self._epoll.register(listener.socket.fileno(), select.EPOLLIN)
        if wake_fd is not None:
            self._epoll.register(wake_fd, select.EPOLLIN)
        for client in clients:
            self._welcome(client)

    def stop(self) -> None:
        """From a signal handler."""
        self._stopping = True

    def run(self) -> None:
        self._notifier.say("READY=1")
        try:
            with self._chores.in_charge():
                while not self._stopping:
                    self._turn()
        finally:
            self._notifier.say("STOPPING=1")
            self._end()

    # ------------------------------------------------------------------------------------------ time

    def _turn(self) -> None:
        self._endings.follow(self._sampler.looker.columns if self._sampler.open else (), CONTAINER)
        self._watched_endings.follow(self._watching.columns, CONTAINER)
        backlog = any(self._may_go_on(one) for one in self._connections.values())
        events = self._epoll.poll(0 if backlog else self._timeout())
        for fd, event in events:
            self._sample_if_due()
            if self._listener is not None and fd == self._listener.socket.fileno():
                self._accept(self._listener)
            elif fd == self._wake_fd:
                os.read(fd, 4096)
            elif fd in self._connections:
                self._serve(self._connections[fd], event)
            elif fd == self._watching.fd:
                self._containers_came()
            elif self._watched_endings.told(fd):
                self._watching.read_again()
            elif self._endings.told(fd) and self._sampler.open:
                self._sampler.mark()
        self._sample_if_due()
        if backlog:
            for connection in [one for one in self._connections.values() if self._may_go_on(one)]:
                self._answer_waiting(connection)
                self._sample_if_due()
        self._rest_of_the_turn(time.monotonic_ns())
        if self._chores.press or (not events and not backlog and self._chores.wait):
            self._chores.do()

    def _timeout(self) -> float | None:
        until = min(self._deadlines(), default=None)
        return None if until is None else max(0, until - time.monotonic_ns()) / 1e9

    def _deadlines(self) -> Iterator[int]:
        if self._sample_ns is not None:
            yield self._sample_ns
        if self._watch_ns is not None:
            yield self._watch_ns
        if self._deaf_until_ns is not None:
            yield self._deaf_until_ns
        if self._places.removing:
            yield time.monotonic_ns() + _REMOVAL_NS
        if self._chores.wait:
            yield time.monotonic_ns() + QUIET_NS
        if self._notifier.watchdog_ns is not None:
            yield self._watchdog_ns
        yield from self._desk.book.deadlines()
        yield from self._desk.given.deadlines()

    def _sample_if_due(self) -> None:
        if not self._sampler.open:
            self._sample_ns = None
            return
        now = time.monotonic_ns()
        period = self._pace()
        if self._sample_ns is None:
            self._sample_ns = now + period
        if now < self._sample_ns:
            return
        # After a stop of ours the missed ones are not made up for: the next keeps the phase.
        self._sample_ns += ((now - self._sample_ns) // period + 1) * period
        if not self._passed_over and now - self._sampler.last_ns < period // _JUST_READ:
            # A window's edge is a sample: another one now would only make whoever closes next wait for it.
            self._passed_over = True
            return
        self._passed_over = False
        if self._sampler.tick().lost_column:
            self._desk.book.renew()

    def _pace(self) -> int:
        """The period that was asked for, or a shorter one that some counter needs which came since the start."""
        zones = self._sampler.looker.zones
        if zones is not self._paced_by:
            asked = self._pace_ns = self._sampler.period_ns
            for zone in zones:
                safe = _POWER_NS if zone.unit == "mw" and zone.summed else longest_period_ns(zone)
                self._pace_ns = min(self._pace_ns, asked if safe is None else safe)
                if zone.unit != "mw" and safe is not None and safe < asked:
                    log(f"{zone.key} may go round unseen: read every {safe // 10**6} ms, not {asked // 10**6}")
            self._paced_by = zones
        return self._pace_ns

    def _rest_of_the_turn(self, now: int) -> None:
        if self._places.removing:
            self._places.step()
            for connection in self._desk.finish_releases():
                self._answer_waiting(connection)
        self._desk.book.expire(now)
        self._desk.given.expire(now)
        self._hear_again(now)
        if self._sampler.store.over_full:
            self._sampler.store.thin_one()
        if self._watch_ns is not None and now >= self._watch_ns:
            self._watch_ns += ((now - self._watch_ns) // _SECOND_NS + 1) * _SECOND_NS
            self._tell_watchers(now)
        if self._notifier.watchdog_ns is not None and now >= self._watchdog_ns:
            self._watchdog_ns = now + self._notifier.watchdog_ns
            self._notifier.say("WATCHDOG=1")
        said = f"STATUS={counted(len(self._sampler.looker.zones))}, {self._desk.book.open_windows} windows open"
        if said != self._said:
            self._said = said
            self._notifier.say(said)

    # ------------------------------------------------------------------------------------------ clients

    def _accept(self, listener: Listener) -> None:
        for _ in range(_NEW_A_TURN):
            try:
                sock = listener.accept()
            except OSError as error:
                # Whoever waits goes on waiting: asked again at once, the same would be said, and all time be spent so.
                log(f"no connection is taken for a second: {error.strerror}")
                self._epoll.modify(listener.socket.fileno(), 0)
                self._deaf_until_ns = time.monotonic_ns() + _SECOND_NS
                return
            if sock is None:
                return
            self._welcome(sock)

    def _hear_again(self, now: int) -> None:
        if self._listener is not None and self._deaf_until_ns is not None and now >= self._deaf_until_ns:
            self._deaf_until_ns = None
            self._epoll.modify(self._listener.socket.fileno(), select.EPOLLIN)

    def _welcome(self, sock: socket.socket) -> None:
        self._numbers += 1
        connection = Connection(sock, self._numbers)
        of_his = sum(1 for one in self._connections.values() if one.uid == connection.uid)
        most = MOST_CONNECTIONS - (KEPT_FOR_ROOT if connection.uid else 0)
        if len(self._connections) >= most or of_his >= MOST_CONNECTIONS_OF_ONE:
            connection.send(refusal(Refused("too_many", f"{of_his} connections of yours: close some first")))
            connection.close()
            return
        self._connections[sock.fileno()] = connection
        self._epoll.register(sock.fileno(), _IN)

    def _serve(self, connection: Connection, event: int) -> None:
        if event & select.EPOLLOUT:
            connection.flush()
        if event & (select.EPOLLHUP | select.EPOLLERR):
            connection.ended = True
        elif event & _IN and connection.takes_more:
            connection.receive()
        self._answer_waiting(connection)

    def _may_go_on(self, connection: Connection) -> bool:
        return bool(connection.lines) and not connection.wants_to_write and not self._desk.waits(connection)

    def _answer_waiting(self, connection: Connection) -> None:
        for _ in range(_MESSAGES_A_TURN):
            if connection.ended or not self._may_go_on(connection):
                break
            self._desk.answer(connection, connection.next_line(), self._watchers)
        if connection.ended:
            self._part(connection)
            return
        if self._watch_ns is None and connection.watching:
            self._sampler.news.clear()
            self._told_ns = time.monotonic_ns()
            self._watch_ns = self._told_ns + _SECOND_NS
            if self._watching.fd is not None:
                self._epoll.register(self._watching.fd, select.EPOLLIN)
        wanted = (_IN if connection.takes_more else 0) | (select.EPOLLOUT if connection.wants_to_write else 0)
        self._epoll.modify(connection.socket.fileno(), wanted)

    def _part(self, connection: Connection) -> None:
        fd = connection.socket.fileno()
        self._epoll.unregister(fd)
        del self._connections[fd]
        connection.close()
        self._desk.part(connection)
        if self._watch_ns is not None and not self._watchers:
            self._watch_ns = None
            self._watching.nobody()
        if self._listener is None and not self._connections:
            self.stop()

    @property
    def _watchers(self) -> int:
        return sum(1 for one in self._connections.values() if one.watching)

    def _containers_came(self) -> None:
        """They are told of at once: what they use counts from their first line on."""
        if self._watching.take() and self._watch_ns is not None:
            self._watch_ns = min(self._watch_ns, max(time.monotonic_ns(), self._told_ns + _BETWEEN_LINES_NS))

    def _tell_watchers(self, now: int) -> None:
        self._told_ns = now
        line = encode(self._desk.next_line())
        for connection in [one for one in self._connections.values() if one.watching]:
            if not connection.wants_to_write:
                connection.stuck_since_ns = None
                connection.send(line)
            elif connection.stuck_since_ns is None:
                # It has not read the line before, and misses this one.
                connection.stuck_since_ns = now
            elif now - connection.stuck_since_ns > _SLOW_NS:
                connection.ended = True
            self._answer_waiting(connection)

    # ------------------------------------------------------------------------------------------ end

    def _end(self) -> None:
        """Windows closed, cgroups removed, the socket gone."""
        if self._listener is not None:
            self._listener.close()
        for handle in list(self._desk.book.handles.values()):
            self._desk.book.drop(handle)
        while self._places.step():
            time.sleep(_REMOVAL_NS / 1e9)
        self._desk.finish_releases()
        self._desk.given.close()
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._endings.close()
        self._watched_endings.close()
        self._epoll.close()
        self._sampler.looker.close()
        tell("ended")
