"""A cascade's client in a trial's container: one prompt over the control socket, and its answer into the workspace.

python3 -I cascade_client.py SOCKET ID PROMPT_FILE

Standard library only, one file. It prints one JSON object of what happened; whether that is an attempt at the task,
the harness decides: `answer` is the line that came, as it came; `failed` why there is none.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import typing

MAX_LINE = 1024 * 1024
"""Bytes of one message, its line feed included."""
_PIECE = 64 * 1024
_FENCES = ("```", "~~~")
_DIFF_WORDS = ("diff", "patch", "udiff")
_SHOWN = 2000


class Unanswered(Exception):
    """`why` is missing, denied, refused, silent, closed, garbage or too_long."""

    def __init__(self, why: str, detail: str):
        super().__init__(detail)
        self.why = why
        self.detail = detail


def connected(path: str, seconds: float | None) -> socket.socket:
    """Raises Unanswered."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    link.settimeout(seconds)
    try:
        link.connect(path)
    except OSError as error:
        link.close()
        raise unreached(error) from error
    return link


def unreached(error: OSError) -> Unanswered:
    """Why nobody was there to be asked."""
    kinds: tuple[tuple[type[OSError], str, str], ...] = (
        (FileNotFoundError, "missing", "there is no socket"),
        (NotADirectoryError, "missing", "there is no socket"),
        (ConnectionRefusedError, "refused", "nobody listens there"),
        (PermissionError, "denied", "no permission to connect, which user 1000 needs"),
        (TimeoutError, "silent", "the connection was not taken up in time"),
        (BlockingIOError, "silent", "the connection was not taken up: too many wait"),
    )
    found = next(((why, words) for kind, why, words in kinds if isinstance(error, kind)), None)
    return Unanswered(*(found or ("refused", error.strerror or str(error))))


def exchanged(link: socket.socket, message: bytes, seconds: float | None) -> bytes:
    """The line that comes back for this one, without its line feed. `seconds`: for all of it. Raises Unanswered."""
    until = None if seconds is None else time.monotonic() + seconds
    received = bytearray()
    try:
        _give(link, until)
        with contextlib.suppress(BrokenPipeError):
            # What did not want to read all of it may have said why.
            link.sendall(message + b"\n")
        while b"\n" not in received:
            _give(link, until)
            piece = link.recv(_PIECE)
            if not piece:
                raise Unanswered("closed", "it closed the connection before its answer's line ended")
            received += piece
            if len(received) > MAX_LINE:
                raise Unanswered("too_long", f"its answer is longer than {MAX_LINE} bytes")
    except TimeoutError as error:
        raise Unanswered("silent", f"no whole answer within {seconds:g} s") from error
    except OSError as error:
        raise Unanswered("closed", f"it broke the connection off: {error.strerror or error}") from error
    line, _, more = bytes(received).partition(b"\n")
    if more:
        raise Unanswered("garbage", "more than one line came for one request")
    return line


def _give(link: socket.socket, until: float | None) -> None:
    if until is not None:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        link.settimeout(left)


def patch_in(response: str) -> str | None:
    """The unified diffs of a response, in fences or bare; None where it holds none. Linear in its length."""
    fenced = [text for word, text in _fenced(response) if word in _DIFF_WORDS or _is_diff(text)]
    if fenced:
        return "".join(text if text.endswith("\n") else text + "\n" for text in fenced)
    if _is_diff(response):
        return response if response.endswith("\n") else response + "\n"
    return None


def _fenced(response: str) -> typing.Iterator[tuple[str, str]]:
    """Word behind the opening fence, and what stands until the closing one; an open end is the response's."""
    fence, word = "", ""
    kept: list[str] = []
    for line in response.split("\n"):
        bare = line.strip()
        if not fence:
            if bare.startswith(_FENCES):
                length = len(bare) - len(bare.lstrip(bare[0]))
                fence, word, kept = bare[:length], bare[length:].strip().lower(), []
        elif bare.startswith(fence) and not bare.strip(fence[0]):
            yield word, "\n".join(kept)
            fence = ""
        else:
            kept.append(line)
    if fence:
        yield word, "\n".join(kept)


def _is_diff(text: str) -> bool:
    before = ""
    for line in text.split("\n"):
        if line.startswith("diff --git ") or (line.startswith("+++ ") and before.startswith("--- ")):
            return True
        before = line
    return False


def applied(patch: str, workspace: str | None = None) -> str | None:
    """None where git took it, whole; else git's words, and the workspace is as it was."""
    try:
        content = patch.encode()
    except UnicodeEncodeError as error:
        return f"no text: {error.reason}"
    try:
        ended = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", "-"],
            input=content,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=workspace,
            check=False,
        )
    except OSError as error:
        return f"git: {error.strerror or error}"
    if ended.returncode == 0:
        return None
    return ended.stderr.decode("utf-8", "replace").strip()[:_SHOWN] or f"git apply ended with {ended.returncode}"


def response_in(line: bytes) -> str | None:
    """None for an object without one: an error, whose words are the harness's to read. Raises Unanswered."""
    try:
        answer = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unanswered("garbage", f"its answer is no JSON: {line[:80]!r}") from error
    if not isinstance(answer, dict):
        raise Unanswered("garbage", f"its answer is no object: {line[:80]!r}")
    response = answer.get("response")
    return response if isinstance(response, str) else None


def attempt(path: str, name: str, prompt_file: str) -> dict[str, object]:
    said: dict[str, object] = {
        "answer": None,
        "failed": None,
        "latencyMs": None,
        "patch": "none",
        "patchProblem": None,
    }
    try:
        with open(prompt_file, encoding="utf-8") as stream:  # noqa: PTH123
            prompt = stream.read()
        message = json.dumps({"id": name, "prompt": prompt}, ensure_ascii=False).encode()
        began = time.monotonic()
        with connected(path, None) as link:
            line = exchanged(link, message, None)
        said["latencyMs"] = round((time.monotonic() - began) * 1000, 3)
        response = response_in(line)
        said["answer"] = line.decode("utf-8")
    except Unanswered as failed:
        said["failed"] = {"why": failed.why, "detail": failed.detail}
        return said
    patch = None if response is None else patch_in(response)
    if patch is not None:
        problem = applied(patch)
        said["patch"] = "applied" if problem is None else "rejected"
        said["patchProblem"] = problem
    return said


if __name__ == "__main__":
    sys.stdout.buffer.write(json.dumps(attempt(*sys.argv[1:4]), ensure_ascii=False).encode() + b"\n")
