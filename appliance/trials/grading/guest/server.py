"""The subject's server: runs requests as user 1000 in /workspace (protocol: subject.py). Started by the harness.

Lives as long as its first connection, the judge's own; at the end of that nothing of its user is left alive but itself.
Standard library only, for any Python from 3.8: it runs in the task's image.
"""

# pathlib would be a third of the start-up time, and zip has no strict before Python 3.10.
# ruff: noqa: PTH101, PTH123, SIM105

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from binascii import a2b_base64, b2a_base64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

SOCKET = "/run/appliance/subject.sock"
MAX_REQUEST = 64 * 1024 * 1024
MAX_STREAM = 8 * 1024 * 1024
DEFAULT_TIMEOUT = 60.0
PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(SOCKET)
    os.chmod(SOCKET, 0o666)  # noqa: S103 - user 1001 connects
    listener.listen(128)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    import ctypes  # while the judge is on its way

    judge, _ = listener.accept()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    waiting = selectors.DefaultSelector()
    waiting.register(listener, selectors.EVENT_READ)
    waiting.register(judge, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is judge:
                end_all()
                judge.sendall(b"dead\n")
                return 0
            connection, _ = listener.accept()
            if fork() == 0:
                listener.close()
                judge.close()
                try:
                    serve(connection, prctl)
                finally:
                    os._exit(0)
            connection.close()


def fork() -> int:
    """-1 where the solution has used up what may run: that connection ends unanswered."""
    try:
        return os.fork()
    except OSError:
        return -1


def end_all() -> None:
    """Every process of this user but this one, in one step that no fork outruns."""
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        pass


def serve(connection: socket.socket, prctl: Any) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What a request leaves behind becomes this process's child, so that it is found whatever session it went to.
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lines = connection.makefile("rb")
    while True:
        line = lines.readline(MAX_REQUEST)
        if not line:
            return
        try:
            answer = answer_to(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            answer = {"error": f"not a request: {error}"}
        try:
            connection.sendall(json.dumps(answer).encode() + b"\n")
        except OSError:
            return


def answer_to(request: dict[str, Any]) -> dict[str, Any]:
    argv = request["argv"]
    if not (isinstance(argv, list) and argv and all(isinstance(word, str) for word in argv)):
        raise ValueError("argv is a list of at least one string")
    stdin = a2b_base64(request.get("stdin") or "")
    timeout = float(request.get("timeoutSeconds") or DEFAULT_TIMEOUT)
    try:
        child = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        said = f"{argv[0]}: {error.strerror}\n".encode("utf-8", "backslashreplace")
        return as_answer(126 if isinstance(error, PermissionError) else 127, b"", said)
    talk = Talk(child, stdin)
    timed_out = not talk.until(time.monotonic() + timeout)
    status = end_of(child)
    talk.finish()
    return as_answer(status, bytes(talk.stdout), bytes(talk.stderr), talk.truncated, timed_out)


def as_answer(
    status: int, stdout: bytes, stderr: bytes, truncated: bool = False, timed_out: bool = False
) -> dict[str, Any]:
    return {
        "exit": None if status < 0 else status,
        "signal": -status if status < 0 else None,
        "stdout": b2a_base64(stdout, newline=False).decode(),
        "stderr": b2a_base64(stderr, newline=False).decode(),
        "truncated": truncated,
        "timedOut": timed_out,
    }


class Talk:
    """Feeds a child and drains it, within caps; what outlives the child is not waited for."""

    def __init__(self, child: subprocess.Popen[bytes], stdin: bytes):
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.truncated = False
        self._child = child
        self._stdin = stdin
        self._waiting = selectors.DefaultSelector()
        for stream, kept in ((child.stdout, self.stdout), (child.stderr, self.stderr)):
            assert stream is not None  # noqa: S101
            os.set_blocking(stream.fileno(), False)
            self._waiting.register(stream, selectors.EVENT_READ, kept)
        assert child.stdin is not None  # noqa: S101
        if stdin:
            os.set_blocking(child.stdin.fileno(), False)
            self._waiting.register(child.stdin, selectors.EVENT_WRITE)
        else:
            child.stdin.close()
        # Without pidfd_open (Python 3.8, kernels before 5.3) the child's exit is looked for often.
        self._pidfd = os.pidfd_open(child.pid) if hasattr(os, "pidfd_open") else None
        if self._pidfd is not None:
            self._waiting.register(self._pidfd, selectors.EVENT_READ)

    def until(self, deadline: float) -> bool:
        """False where the time was over before the child was."""
        while self._child.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _ in self._waiting.select(left if self._pidfd is not None else min(left, 0.01)):
                if key.fileobj is self._child.stdin:
                    self._feed(self._child.stdin)
                elif key.data is not None:
                    self._drain(key.fileobj, key.data)
        return True

    def finish(self) -> None:
        """Read what is in the pipes by now, and close them."""
        for key in list(self._waiting.get_map().values()):
            if key.data is not None:
                while self._drain(key.fileobj, key.data):
                    pass
        self._waiting.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass

    def _feed(self, stream: IO[bytes]) -> None:
        try:
            self._stdin = self._stdin[os.write(stream.fileno(), self._stdin[:65536]) :]
        except BlockingIOError:
            return
        except OSError:
            self._stdin = b""
        if not self._stdin:
            self._waiting.unregister(stream)
            stream.close()

    def _drain(self, stream: Any, kept: bytearray) -> bool:
        """False where nothing more is there, or ever will be."""
        try:
            chunk = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        if not chunk:
            self._waiting.unregister(stream)
            return False
        room = MAX_STREAM - len(kept)
        kept += chunk[:room]
        self.truncated |= len(chunk) > room
        return True


def end_of(child: subprocess.Popen[bytes]) -> int:
    """Its status, once nothing that it started is left."""
    signal_to(-child.pid)
    status = child.wait()
    give_up = time.monotonic() + 1.0
    while time.monotonic() < give_up:
        for pid in children():
            signal_to(pid)
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.0005)
        except ChildProcessError:
            break
    return status


def children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as listed:
            return [int(pid) for pid in listed.read().split()]
    except OSError:
        return []


def signal_to(pid: int) -> None:
    """SIGKILL; a negative pid is a process group."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    sys.exit(main())
