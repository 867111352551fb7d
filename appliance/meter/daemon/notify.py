"""systemd's notification protocol (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping


class Notifier:
    """Says nothing where no service manager listens."""

    def __init__(self, environment: Mapping[str, str] = os.environ):
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self.watchdog_ns = _watchdog_ns(environment)

    def say(self, message: str) -> None:
        """`READY=1`, `STATUS=...`, `WATCHDOG=1`, `STOPPING=1`; a manager that is gone costs nothing."""
        if not self._address:
            return
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.setblocking(False)
            out.sendto(message.encode(), self._address)


def _watchdog_ns(environment: Mapping[str, str]) -> int | None:
    """How often to say that we live: half of what we may be silent; None where nobody asks."""
    text, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not text.isdigit() or int(text) == 0 or (pid and pid != str(os.getpid())):
        return None
    return int(text) * 1000 // 2
