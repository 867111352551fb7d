"""Runs the oracle as user 1001 in the grader's container, and says what it saw as one JSON document (formats 7).

    judge.py {"testCmd": [...], "seconds": n, "report": path | null, "subject": bool}     run, end all, report
    judge.py {"collect": true, "report": path | null}                                     the second half alone
    judge.py {"unpack": path}                                                             a tar on stdin into path

Nothing but this process writes to its standard output: what test_cmd prints is piped, and kept within caps. The user
of the solution can read neither /tests nor /grade, nor signal or trace anything here. Standard library only, for any
Python from 3.8.
"""

# pathlib would be a third of the start-up time, and zip has no strict before Python 3.10.
# ruff: noqa: PTH103, PTH108, PTH114, PTH115, PTH118, PTH123, PTH208, SIM105, B905

from __future__ import annotations

import hashlib
import json
import os
import selectors
import signal
import socket
import stat
import subprocess
import sys
import time
from binascii import b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

SOCKET = "/run/appliance/subject.sock"
TESTS = "/tests"
GRADE = "/grade"
MAX_REPORT = 8 * 1024 * 1024
HALF_STREAM = 1024 * 1024
SUBJECT_STARTS_WITHIN = 30.0


def main(order: dict[str, Any]) -> dict[str, Any]:
    if "unpack" in order:
        import tarfile  # here alone: it is a third of the start-up time

        with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
            archive.extractall(order["unpack"])  # noqa: S202 - a tar of ours
        return {}
    said: dict[str, Any] = {} if "collect" in order else run(order)
    end_own()
    said.update(
        alone=is_alone(),
        testsDigest=tests_digest(),
        report=report_of(order.get("report")),
        unrouted=unrouted(),
    )
    return said


def run(order: dict[str, Any]) -> dict[str, Any]:
    """test_cmd to its exit or its limit; then everything that it or the solution left is ended."""
    link = connect() if order["subject"] else None
    if order["subject"] and link is None:
        return {"subjectMissing": True}
    for folder in ("tmp", "home"):
        os.makedirs(os.path.join(GRADE, folder), exist_ok=True)
    if order["report"] and os.path.lexists(order["report"]):
        os.unlink(order["report"])
    said = run_tests(order["testCmd"], order["seconds"])
    if link is not None:
        end_subject(link)
    return said


def connect() -> socket.socket | None:
    """The first connection: the server lives as long as it, and was made before the solution could run."""
    give_up = time.monotonic() + SUBJECT_STARTS_WITHIN
    pause = 0.001
    while time.monotonic() < give_up:
        link = socket.socket(socket.AF_UNIX)
        try:
            link.connect(SOCKET)
        except OSError:
            link.close()
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        else:
            return link
    return None


def end_subject(link: socket.socket) -> None:
    try:
        link.settimeout(2.0)
        link.shutdown(socket.SHUT_WR)
        link.recv(16)
    except OSError:
        pass
    link.close()


def run_tests(argv: list[str], seconds: float) -> dict[str, Any]:
    streams = [Kept(), Kept()]
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        return {"startError": f"{argv[0]}: {error.strerror}"}
    waiting = selectors.DefaultSelector()
    for stream, kept in zip((child.stdout, child.stderr), streams):
        assert stream is not None  # noqa: S101
        os.set_blocking(stream.fileno(), False)
        waiting.register(stream, selectors.EVENT_READ, kept)
    timed_out = not pump(child, waiting, time.monotonic() + seconds)
    end_own()
    status = child.wait()
    give_up = time.monotonic() + 1.0
    while waiting.get_map() and time.monotonic() < give_up:
        read_ready(waiting, 0.05)
    return {
        "exit": None if timed_out else (status if status >= 0 else 128 - status),
        "timedOut": timed_out,
        "stdout": streams[0].said(),
        "stderr": streams[1].said(),
    }


def pump(child: subprocess.Popen[bytes], waiting: selectors.BaseSelector, deadline: float) -> bool:
    """False where the limit came first."""
    pidfd = os.pidfd_open(child.pid) if hasattr(os, "pidfd_open") else None
    if pidfd is not None:
        waiting.register(pidfd, selectors.EVENT_READ, None)
    try:
        while child.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            read_ready(waiting, left if pidfd is not None else min(left, 0.02))
        return True
    finally:
        if pidfd is not None:
            waiting.unregister(pidfd)
            os.close(pidfd)


def read_ready(waiting: selectors.BaseSelector, seconds: float) -> None:
    for key, _ in waiting.select(seconds):
        if key.data is None:
            continue
        try:
            chunk = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            continue
        if chunk:
            key.data.take(chunk)
        else:
            waiting.unregister(key.fileobj)


class Kept:
    """Head and tail of a stream, and the size and digest of the whole."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._digest = hashlib.sha256()

    def take(self, chunk: bytes) -> None:
        self._total += len(chunk)
        self._digest.update(chunk)
        room = HALF_STREAM - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * HALF_STREAM:
            del self._tail[:-HALF_STREAM]

    def said(self) -> dict[str, Any]:
        return {
            "bytes": self._total,
            "sha256": self._digest.hexdigest(),
            "head": b2a_base64(self._head, newline=False).decode(),
            "tail": b2a_base64(self._tail[-HALF_STREAM:], newline=False).decode(),
        }


def end_own() -> None:
    """Every process of this user but this one and the container's first, which no signal from inside reaches."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_alone() -> bool:
    """Whether no process of another user is left; one that is being torn down is given a moment."""
    give_up = time.monotonic() + 0.5
    while any(map(is_foreign, filter(str.isdigit, os.listdir("/proc")))):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.002)
    return True


def is_foreign(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status if ":" in line)
    except OSError:
        return False
    return int(fields["Uid"].split()[0]) != os.getuid() and fields["State"].split()[0] not in "ZX"


def report_of(path: str | None) -> str | None:
    """The bytes of the report in base64; None where there is none, or it is no plain file of a sane size."""
    if not path:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        seen = os.fstat(stream.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.getuid() or seen.st_size > MAX_REPORT:
            return None
        return b2a_base64(stream.read(MAX_REPORT), newline=False).decode()


def tests_digest() -> str | None:
    """As `appliance.digests.tree_digest`: the sha256 of the JSON list of [path, mode, sha256 or target]."""
    entries = []
    try:
        for folder, names, files in os.walk(TESTS, onerror=fail):
            links = [name for name in names if os.path.islink(os.path.join(folder, name))]
            for name in files + links:
                entries.append(tree_entry(os.path.join(folder, name)))
        entries.sort(key=lambda entry: entry[0].encode())
        form = json.dumps(entries, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(form.encode()).hexdigest()
    except (OSError, UnicodeError):
        return None


def fail(error: OSError) -> NoReturn:
    raise error


def tree_entry(path: str) -> list[str]:
    relative = os.path.relpath(path, TESTS)
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        return [relative, "link", os.readlink(path)]
    with open(path, "rb") as stream:
        return [relative, "755" if mode & 0o100 else "644", hashlib.sha256(stream.read()).hexdigest()]


def unrouted() -> int:
    """Packets for which this network namespace had no route, v4 and v6: what reached for a network there isn't."""
    total = 0
    try:
        with open("/proc/net/snmp") as table:
            rows = [line.split() for line in table if line.startswith("Ip:")]
        total += int(dict(zip(rows[0], rows[1])).get("OutNoRoutes", 0))
        with open("/proc/net/snmp6") as table:
            total += sum(int(line.split()[1]) for line in table if line.startswith("Ip6OutNoRoutes"))
    except (OSError, ValueError, IndexError):
        return total
    return total


if __name__ == "__main__":
    json.dump(main(json.loads(sys.argv[1])), sys.stdout)
