"""A cascade that is asked from this side: over its control socket, or over HTTP."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

from appliance.errors import InputRefused
from appliance.solvers.cascade.client import MAX_LINE, Unanswered, connected, exchanged
from appliance.solvers.cascade.messages import Answer, ErrorCode, Health, Refused, Resolve, Warm, Warmed
from appliance.wire import Wire

_Said = TypeVar("_Said", bound=Wire)
_SECONDS: Final = 600.0


class CascadeFailed(Exception):
    """`code`: the cascade's own word, or why there is no answer at all (`client.Unanswered`)."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code
        self.message = message


class RequestRefused(CascadeFailed):
    """The cascade's own word for what it did not take, or could not do."""

    def __init__(self, code: ErrorCode, message: str):
        super().__init__(code, message)
        self.error: ErrorCode = code


class Cascade(Protocol):
    """Anything that answers prompts by the first of its stages that can. One request at a time; raises CascadeFailed
    where there is no answer."""

    def health(self) -> Health: ...

    def resolve(self, request: Resolve) -> Answer: ...

    def warm(self, request: Warm) -> Warmed: ...


class SocketCascade:
    """A control socket; `seconds`: for each answer, whole."""

    def __init__(self, path: Path, *, seconds: float = _SECONDS):
        self._path = path
        self._seconds = seconds

    def health(self) -> Health:
        return self._asked(b"{}", Health.from_json)

    def resolve(self, request: Resolve) -> Answer:
        return self._asked(request.canonical(), Answer.from_json)

    def warm(self, request: Warm) -> Warmed:
        return self._asked(request.canonical(), Warmed.from_json)

    def _asked(self, message: bytes, read: Callable[[bytes, str], _Said]) -> _Said:
        try:
            with short_path(self._path) as path, connected(path, self._seconds) as link:
                line = exchanged(link, message, self._seconds)
        except Unanswered as failed:
            raise CascadeFailed(failed.why, f"{self._path}: {failed.detail}") from failed
        return _read(line, str(self._path), read)


class HttpCascade:
    """`url`: what `/resolve`, `/healthz` and `/warm` are appended to. No redirect is followed, no proxy asked."""

    def __init__(self, url: str, *, seconds: float = _SECONDS):
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.query or parts.fragment or parts.username:
            raise InputRefused("no http:// URL of a host", where=url, mend="as http://127.0.0.1:8099")
        self._url = url
        self._place = (parts.hostname, parts.port or 80)
        self._prefix = parts.path.rstrip("/")
        self._seconds = seconds

    def health(self) -> Health:
        return self._asked("GET", "/healthz", None, Health.from_json)

    def resolve(self, request: Resolve) -> Answer:
        return self._asked("POST", "/resolve", request.canonical(), Answer.from_json)

    def warm(self, request: Warm) -> Warmed:
        return self._asked("POST", "/warm", request.canonical(), Warmed.from_json)

    def _asked(self, method: str, path: str, body: bytes | None, read: Callable[[bytes, str], _Said]) -> _Said:
        link = http.client.HTTPConnection(*self._place, timeout=self._seconds)
        try:
            link.request(method, self._prefix + path, body, {"content-type": "application/json"} if body else {})
            content = link.getresponse().read(MAX_LINE + 1)
        except (OSError, http.client.HTTPException) as error:
            why = "silent" if isinstance(error, TimeoutError) else "refused"
            raise CascadeFailed(why, f"{self._url}: {error or type(error).__name__}") from error
        finally:
            link.close()
        if len(content) > MAX_LINE:
            raise CascadeFailed("too_long", f"{self._url}: its answer is longer than {MAX_LINE} bytes")
        return _read(content, self._url, read)


def _read(content: bytes, where: str, read: Callable[[bytes, str], _Said]) -> _Said:
    try:
        return read(content, where)
    except InputRefused as refusal:
        try:
            error = Refused.from_json(content, where).error
        except InputRefused:
            raise CascadeFailed("garbage", f"{where}: no answer of cascade-v1: {refusal}") from refusal
        raise RequestRefused(error.code, f"{where}: {error.message}") from refusal


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """The same socket by a name that fits into an address: 107 bytes are all that one takes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) if path.parent.is_dir() else -1
    if folder < 0:
        raise Unanswered("missing", "there is no socket")
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def is_answering(path: Path) -> bool:
    """Whether somebody listens at this socket."""
    try:
        with short_path(path) as short, socket.socket(socket.AF_UNIX) as link:
            link.settimeout(1.0)
            link.connect(short)
    except (OSError, Unanswered):
        return False
    return True
