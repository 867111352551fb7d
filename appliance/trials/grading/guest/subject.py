#!/usr/bin/env -S python3 -I -S
"""Runs what a solution is made of, as user 1000, for tests that run as somebody else (formats 7).

    subject [--timeout SECONDS] [--] ARGV...     run ARGV as the solution's user: output and exit status are ARGV's

From Python, many calls over one connection: `sys.path.append("/run/appliance/lib"); from subject import Subject`.
The protocol: JSON lines over /run/appliance/subject.sock, any number on one connection, answered in order.
    {"argv": [...], "stdin": base64?, "timeoutSeconds": n?}
    {"exit": n | null, "signal": n | null, "stdout": base64, "stderr": base64, "truncated": bool, "timedOut": bool}
What cannot be started exits with 127 (126 where it is not executable) and says so on stderr. {"error": "..."} answers
a line that is no request. Standard library only, for any Python from 3.8: it runs in the task's image.
"""

# pathlib would be a third of the start-up time, and zip has no strict before Python 3.10.
# ruff: noqa: PTH110

from __future__ import annotations

import json
import os
import socket
import sys
from binascii import a2b_base64, b2a_base64

SOCKET = "/run/appliance/subject.sock"
JUDGE_UID = 1001
DEFAULT_TIMEOUT = 60.0


class Subject:
    """One connection to the server. `run` may be called any number of times, by one thread at a time."""

    def __init__(self, path: str = SOCKET):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._lines = self._socket.makefile("rb")

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = DEFAULT_TIMEOUT) -> dict:  # type: ignore[type-arg]
        """The answer, with `stdout` and `stderr` as bytes. Raises ConnectionError where the server has died."""
        given = b2a_base64(stdin, newline=False).decode()
        self._socket.sendall(json.dumps({"argv": argv, "stdin": given, "timeoutSeconds": timeout}).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise ConnectionError("the subject's server is gone")
        answer = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        for name in ("stdout", "stderr"):
            answer[name] = a2b_base64(answer[name])
        return answer  # type: ignore[no-any-return]

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def main(arguments: list[str]) -> int:
    timeout = DEFAULT_TIMEOUT
    if arguments[:1] == ["--timeout"] and len(arguments) > 1:
        timeout = float(arguments[1])
        arguments = arguments[2:]
    if arguments[:1] == ["--"]:
        arguments = arguments[1:]
    if not arguments:
        sys.stderr.write("usage: subject [--timeout SECONDS] [--] ARGV...\n")
        return 2
    if not os.path.exists(SOCKET):
        return run_here(arguments)
    stdin = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()
    try:
        answer = Subject().run(arguments, stdin, timeout)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"subject: {error}\n")
        return 125
    sys.stdout.buffer.write(answer["stdout"])
    sys.stdout.flush()
    sys.stderr.buffer.write(answer["stderr"])
    sys.stderr.flush()
    return 128 + answer["signal"] if answer["signal"] else int(answer["exit"])


def run_here(arguments: list[str]) -> int:
    """Where nobody serves: a solver runs the tests that it sees. Never as the judge, who would lend its rights."""
    if os.getuid() == JUDGE_UID:
        sys.stderr.write("subject: the subject's server is gone\n")
        return 125
    try:
        os.execvp(arguments[0], arguments)  # noqa: S606 - to run what it is told is what it is for
    except OSError as error:
        sys.stderr.write(f"subject: {arguments[0]}: {error.strerror}\n")
        return 126 if isinstance(error, PermissionError) else 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
