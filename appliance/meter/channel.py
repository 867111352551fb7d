"""One connection to the meter: a request, then its answer, a line each, with the descriptors that came along."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from appliance.errors import MeterRefused

VERSION: Final = 1
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""A watch line with some thousands of containers is under 1 MiB."""
_PIECE: Final = 64 * 1024
_MOST_FDS: Final = 1


class Channel:
    """Threads take turns. Raises MeterRefused."""

    def __init__(self, sock: socket.socket):
        self.socket = sock
        self._rest = b""
        self._lock = threading.Lock()

    def ask(self, op: str, **asked: Any) -> dict[str, Any]:
        answer, fds = self.exchange(op, asked)
        close_all(fds)
        return answer

    def exchange(self, op: str, asked: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
        """The answer, and the descriptors that came with it, which the caller closes."""
        with self._lock:
            self._send(op, asked)
            return self._receive()

    def lines(self, op: str) -> Iterator[dict[str, Any]]:
        with self._lock:
            self._send(op, {})
        while True:
            answer, fds = self._receive()
            close_all(fds)
            yield answer

    def _send(self, op: str, asked: dict[str, Any]) -> None:
        line = json.dumps({"op": op, "v": VERSION, **asked}, ensure_ascii=False).encode() + b"\n"
        try:
            self.socket.sendall(line)
        except OSError as error:
            raise gone(error) from error

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        """One line and the descriptors that came with it. Raises MeterRefused for an `error` too."""
        fds: list[int] = []
        pieces = [self._rest]
        length = len(self._rest)
        try:
            while b"\n" not in pieces[-1]:
                piece, more, _, _ = socket.recv_fds(self.socket, _PIECE, _MOST_FDS)
                fds += more
                length += len(piece)
                if not piece or length > MAX_ANSWER_BYTES:
                    raise ConnectionError("it closed the connection" if not piece else "it does not end its line")
                pieces.append(piece)
            line, _, self._rest = b"".join(pieces).partition(b"\n")
            answer = json.loads(line)
        except (OSError, ValueError) as error:
            close_all(fds)
            raise gone(error) from error
        if not isinstance(answer, dict) or "error" in answer:
            close_all(fds)
            raise _refused(answer)
        return answer, fds


def close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)


def gone(error: Exception) -> MeterRefused:
    """In words for whoever reads a record or a report: no number of the system's."""
    words = str(error)
    if isinstance(error, BrokenPipeError | ConnectionResetError):
        words = "it closed the connection"
    elif isinstance(error, OSError) and error.strerror:
        words = error.strerror
    return MeterRefused(f"the meter does not answer: {words}", reason="gone")


def strange(what: str) -> MeterRefused:
    return MeterRefused(f"the meter answers with {what}", reason="gone")


def _refused(answer: Any) -> MeterRefused:
    problem = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(problem, dict):
        return strange(str(answer)[:200])
    return MeterRefused(f"the meter: {problem.get('message')}", reason=str(problem.get("code")))
