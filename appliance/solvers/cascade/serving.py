"""A cascade behind a control socket, and over HTTP on this host: bounded messages, errors as objects."""

from __future__ import annotations

import contextlib
import socketserver
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final, cast

from appliance.errors import HostRefused, InputRefused
from appliance.solvers.cascade.client import MAX_LINE, Unanswered
from appliance.solvers.cascade.links import Cascade, CascadeFailed, RequestRefused, is_answering, short_path
from appliance.solvers.cascade.messages import ErrorCode, Problem, Refused, Resolve, Warm, Who
from appliance.wire import Wire
from attest import canonical

_AT_A_TIME: Final = 32
"""Connections of each server; more of them wait in the kernel's queue."""
_IDLE_SECONDS: Final = 600.0
_BODY_SECONDS: Final = 30.0
_STATUS: Final[dict[ErrorCode, int]] = {
    "bad_message": 400,
    "unknown_route": 404,
    "too_large": 413,
    "failed": 502,
    "overloaded": 503,
}
_ASKED: Final[dict[str, type[Wire]]] = {"prompt": Resolve, "prompts": Warm}
_ROUTES: Final[dict[str, type[Wire]]] = {"/resolve": Resolve, "/warm": Warm}


def answer_to(cascade: Cascade, request: Wire) -> Wire:
    """Never raises for what a cascade could not do: that is an object too."""
    try:
        if isinstance(request, Resolve):
            answer: Wire = cascade.resolve(request)
        elif isinstance(request, Warm):
            answer = cascade.warm(request)
        else:
            answer = cascade.health()
    except RequestRefused as refused:
        return refusal(refused.error, refused.message)
    except CascadeFailed as failed:
        return refusal("failed", f"{failed.code}: {failed.message}")
    if len(answer.canonical()) >= MAX_LINE:
        return refusal("failed", f"the answer is longer than {MAX_LINE} bytes")
    return answer


def refusal(code: ErrorCode, message: str) -> Refused:
    return Refused(error=Problem(code=code, message=message[:2000]))


def request_in(line: bytes) -> Wire:
    """Of a control socket's line, by its members. Raises InputRefused."""
    try:
        said = canonical.loads(line)
    except canonical.NotCanonical as error:
        raise InputRefused(str(error)) from error
    named = [kind for member, kind in _ASKED.items() if isinstance(said, dict) and member in said]
    return (named[0] if named else Who).from_json(line, "the request")


class _Bounded(socketserver.ThreadingMixIn):
    """No more threads than there are places."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, *words: Any, **more: Any):
        self._places = threading.BoundedSemaphore(_AT_A_TIME)
        super().__init__(*words, **more)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._places.acquire()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's error; anything else is printed with its traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[misc]


# ------------------------------------------------------------------------------------------------ the socket


class _Lines(socketserver.StreamRequestHandler):
    timeout = _IDLE_SECONDS

    def handle(self) -> None:
        cascade = cast(_SocketServer, self.server).cascade
        while True:
            line = self.rfile.readline(MAX_LINE + 1)
            if not line.endswith(b"\n"):
                if len(line) > MAX_LINE:
                    self._say(refusal("too_large", f"a message has at most {MAX_LINE} bytes"))
                return
            try:
                request = request_in(line[:-1])
            except InputRefused as refused:
                self._say(refusal("bad_message", str(refused)))
                continue
            self._say(answer_to(cascade, request))

    def _say(self, answer: Wire) -> None:
        self.wfile.write(answer.canonical() + b"\n")


class _SocketServer(_Bounded, socketserver.UnixStreamServer):
    def __init__(self, address: str, cascade: Cascade):
        self.cascade = cascade
        super().__init__(address, _Lines)


@contextlib.contextmanager
def on_socket(path: Path, cascade: Cascade) -> Iterator[None]:
    """Serves at `path`, mode 0666, until it is left: who may reach it, its folder's mode says.

    Raises HostRefused where somebody answers there, or where it cannot be made.
    """
    if path.is_socket() and not is_answering(path):
        path.unlink()
    if path.exists() or path.is_symlink():
        words = "another program answers there" if path.is_socket() else "something else lies there"
        raise HostRefused(words, where=str(path), mend="name another --socket")
    try:
        with short_path(path) as short:
            server = _SocketServer(short, cascade)
        path.chmod(0o666)
    except (OSError, Unanswered) as error:
        words = "no such folder" if isinstance(error, Unanswered) else (error.strerror or str(error))
        raise HostRefused(words, where=str(path), mend="name a socket in a folder that is there") from error
    try:
        with _running(server):
            yield
    finally:
        path.unlink(missing_ok=True)


# --------------------------------------------------------------------------------------------------- HTTP


class _Bodies(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "cascade-v1"
    sys_version = ""
    timeout = _BODY_SECONDS

    def do_GET(self) -> None:
        known = self.path == "/healthz"
        self._say(answer_to(self._cascade, Who()) if known else self._no_route())

    def do_POST(self) -> None:
        kind = _ROUTES.get(self.path)
        length = self.headers.get("content-length", "")
        if kind is None or not length.isascii() or not length.isdigit() or len(length) > 9:
            # Its body stays unread, so the connection cannot go on.
            self.close_connection = True
            self._say(self._no_route() if kind is None else refusal("bad_message", "no content-length"))
        elif int(length) > MAX_LINE:
            self.close_connection = True
            self._say(refusal("too_large", f"a message has at most {MAX_LINE} bytes"))
        else:
            self._say(self._answer(kind, self.rfile.read(int(length))))

    def _answer(self, kind: type[Wire], body: bytes) -> Wire:
        try:
            request = kind.from_json(body, "the request")
        except InputRefused as refused:
            return refusal("bad_message", str(refused))
        return answer_to(self._cascade, request)

    @property
    def _cascade(self) -> Cascade:
        return cast(_HttpServer, self.server).cascade

    def _no_route(self) -> Refused:
        return refusal("unknown_route", "there are POST /resolve, POST /warm and GET /healthz")

    def _say(self, answer: Wire) -> None:
        body = answer.canonical()
        self.send_response(_STATUS[answer.error.code] if isinstance(answer, Refused) else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if self.close_connection:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Prompts and paths of others are nothing for a log."""


class _HttpServer(_Bounded, HTTPServer):
    def __init__(self, address: tuple[str, int], cascade: Cascade):
        self.cascade = cascade
        super().__init__(address, _Bodies)

    def server_bind(self) -> None:
        # HTTPServer's own looks its name up, which may ask a name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


@contextlib.contextmanager
def over_http(host: str, port: int, cascade: Cascade) -> Iterator[str]:
    """Its URL. Nobody who asks proves who they are: `host` is an address of this machine's loopback.

    Raises HostRefused where the port is taken.
    """
    try:
        server = _HttpServer((host, port), cascade)
    except OSError as error:
        raise HostRefused(
            error.strerror or str(error), where=f"--http {host}:{port}", mend="name another port, or 0 for any"
        ) from error
    with _running(server):
        yield f"http://{host}:{server.server_address[1]}"


@contextlib.contextmanager
def _running(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
