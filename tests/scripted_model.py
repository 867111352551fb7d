"""A model's server on loopback that answers from a script, in all four wire forms, with the faults that real ones have.

    with ScriptedModel(Run("sed -i s/a/b/ f.py"), Say("Done."), key="secret") as model:
        ...                     # model.url = http://127.0.0.1:PORT; an OpenAI client wants f"{model.url}/v1"
        assert model.saw[0].json["model"] == "scripted"

Which turn answers is told by the conversation itself (how many turns with a tool's call it holds), so that retries,
titles and other requests beside it disturb nothing; `order="arrival"` counts requests instead, for agents that call no
tools. A `Run` is a call of whichever shell tool the agent offers; where it offers none, `aside` is said.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import socketserver
import struct
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs, unquote, urlsplit

from tests.scripted_forms import (
    Event,
    Spoken,
    Tokens,
    arguments_for,
    events,
    refused,
    shell_of,
    turns_of,
    usage_of,
    whole,
)

__all__ = ["Cut", "Drip", "Html", "Reset", "Run", "Say", "ScriptedModel", "Seen", "Silence", "Status", "Tokens"]

SAY: Final = "Done: scripted answer."


@dataclass(frozen=True)
class Say:
    """A text. `fill_bytes`: so much more of it, in pieces of 16 KiB, made as they are sent."""

    text: str = SAY
    tokens: Tokens | None = None
    """Of this turn alone; None: the model's."""
    fill_bytes: int = 0


@dataclass(frozen=True)
class Run:
    """A call of the agent's shell tool, after a text where there is one."""

    command: str
    text: str = ""
    tokens: Tokens | None = None


@dataclass(frozen=True)
class Status:
    """An error in the form's own shape; 429 with `retry_after` in seconds."""

    status: int
    retry_after: str | None = None


@dataclass(frozen=True)
class Reset:
    """The connection is reset: at once, or after so many bytes of the answer's body."""

    after_bytes: int = 0


@dataclass(frozen=True)
class Cut:
    """The answer stops in the middle, and the connection is closed: of a stream in the middle of event number `events`;
    of a whole answer after half of the bytes that its length promised."""

    events: int = 2


@dataclass(frozen=True)
class Silence:
    """Nothing at all for so long; or, with `after_events`, nothing more."""

    seconds: float = 3600
    after_events: int = 0


@dataclass(frozen=True)
class Html:
    """Status 200 and a page, as from somebody's proxy."""


@dataclass(frozen=True)
class Drip:
    """Every `piece_bytes` of the body on their own, with a pause before each."""

    pause_seconds: float
    piece_bytes: int = 64


Fault = Status | Reset | Cut | Silence | Html | Drip
Turn = Say | Run


@dataclass
class Seen:
    """One request as it came, credentials and all."""

    number: int
    method: str
    target: str
    headers: list[tuple[str, str]]
    """Names in lower case."""
    body: bytes
    connection: int
    """Which connection it came on: two requests of one number shared it."""
    at_seconds: float
    """time.monotonic()"""
    form: str | None
    answered: int | None = None
    """The status; None where nothing was answered."""

    @property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body or b"{}")
        assert isinstance(value, dict)
        return value

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass
class _Script:
    turns: tuple[Turn, ...]
    order: Literal["conversation", "arrival"]
    tokens: Tokens | None
    usage: dict[str, Any] | None
    aside: str
    model: str
    key: str | None
    llama: bool
    always: Fault | None
    faults: deque[Fault | None]
    saw: list[Seen] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    generated: Iterator[int] = field(default_factory=itertools.count)
    connections: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)


class ScriptedModel:
    def __init__(
        self,
        *turns: Turn,
        order: Literal["conversation", "arrival"] = "conversation",
        tokens: Tokens | None = Tokens(),  # noqa: B008 - frozen
        usage: dict[str, Any] | None = None,
        aside: str = "A title",
        model: str = "scripted",
        key: str | None = None,
        llama: bool = False,
        faults: Iterable[Fault | None] = (),
        always: Fault | None = None,
        unix: Path | None = None,
        port: int = 0,
    ):
        """`tokens` None: no answer says what it used; `usage`: this object stands in every answer's place for it.

        `key`: without it every request is a 401. `llama`: chat answers have llama-server's `timings`.
        `faults`: met by the requests for an answer in the order that they come, None being no fault; `always`: by all.
        `unix`: a socket's path in place of a port.
        """
        self._script = _Script(turns or (Say(),), order, tokens, usage, aside, model, key, llama, always, deque(faults))
        self._unix = unix
        self._port = port
        self._server: _Tcp | _Unix | None = None

    def __enter__(self) -> ScriptedModel:
        script = self._script
        tcp = self._unix is None
        handler = type("Handler", (_Handler,), {"script": script, "disable_nagle_algorithm": tcp})
        self._server = _Tcp(("127.0.0.1", self._port), handler) if tcp else _Unix(str(self._unix), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._script.stopping.set()
        self._server.shutdown()
        self._server.server_close()
        if self._unix is not None:
            self._unix.unlink(missing_ok=True)

    @property
    def port(self) -> int:
        assert isinstance(self._server, _Tcp)
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def saw(self) -> list[Seen]:
        """All requests so far, in the order that they came."""
        with self._script.lock:
            return list(self._script.saw)

    @property
    def asked(self) -> list[Seen]:
        """Those for an answer alone: no lists, no counts."""
        return [seen for seen in self.saw if seen.form and _act(seen.target) == "generate"]


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def _form(target: str) -> str | None:
    path = urlsplit(target).path
    if path.endswith(("/messages", "/messages/count_tokens")):
        return "anthropic"
    if path.endswith("/chat/completions"):
        return "openai-chat"
    if path.endswith(("/responses", "/responses/input_tokens")):
        return "openai-responses"
    return "gemini" if ":" in path.rsplit("/", 1)[-1] else None


def _act(target: str) -> str:
    path = urlsplit(target).path
    return "count" if path.endswith(("count_tokens", "input_tokens", ":countTokens")) else "generate"


class _Handler(BaseHTTPRequestHandler):
    script: _Script
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection_number = next(self.script.connections)

    def log_message(self, *_: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    # ------------------------------------------------------------------------------------------ asked

    def do_HEAD(self) -> None:
        self._see(None)
        self._send(200, b"")

    def do_GET(self) -> None:
        self._see(None)
        name = self.script.model
        if self.path == "/health":
            return self._json(200, {"status": "ok"})
        if urlsplit(self.path).path.endswith("/models"):
            listed = {"object": "list", "data": [{"id": name, "object": "model", "type": "model", "created": 0}]}
            return self._json(200, listed | {"models": [{"name": f"models/{name}"}]})
        return self._json(404, refused("openai-chat", 404, "no such route"))

    def do_POST(self) -> None:
        form = _form(self.path)
        seen = self._see(form)
        if form is None:
            self._json(404, refused("openai-chat", 404, "no such route"))
        elif self.script.key is not None and self.script.key not in self._keys(seen):
            self._json(401, refused(form, 401, "no such key"))
        elif _act(self.path) == "count":
            tokens = self.script.tokens or Tokens()
            self._json(200, {"totalTokens" if form == "gemini" else "input_tokens": tokens.input})
        else:
            with self.script.lock:
                fault = self.script.faults.popleft() if self.script.faults else self.script.always
            self._generate(form, seen, fault)

    def _generate(self, form: str, seen: Seen, fault: Fault | None) -> None:
        if isinstance(fault, Silence) and not fault.after_events:
            self.script.stopping.wait(fault.seconds)
        if isinstance(fault, Status):
            waits = [] if fault.retry_after is None else [("retry-after", fault.retry_after)]
            self._json(fault.status, refused(form, fault.status, f"scripted {fault.status}"), waits)
        elif isinstance(fault, Html):
            self._send(200, b"<html><body>Please log in.</body></html>", kind="text/html")
        elif isinstance(fault, Reset) and not fault.after_bytes:
            self._reset()
        else:
            self._answer(form, seen, fault)

    def _see(self, form: str | None) -> Seen:
        self.chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        body = self._chunks() if self.chunked else self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = [(name.lower(), value) for name, value in self.headers.items()]
        with self.script.lock:
            number = next(self.script.numbers)
            seen = Seen(number, self.command, self.path, headers, body, self.connection_number, time.monotonic(), form)
            self.script.saw.append(seen)
        self.seen = seen
        return seen

    def _chunks(self) -> bytes:
        found = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(found)

    def _keys(self, seen: Seen) -> set[str]:
        queried = parse_qs(urlsplit(self.path).query).get("key", [])
        named = {seen.header("x-api-key"), seen.header("x-goog-api-key"), *queried}
        bearer = (seen.header("authorization") or "").removeprefix("Bearer ")
        return {key for key in (*named, bearer) if key}

    # ------------------------------------------------------------------------------------------ answered

    def _answer(self, form: str, seen: Seen, fault: Fault | None) -> None:
        body = seen.json
        said, fill = self._said(form, body, seen.number)
        streams = ":streamGenerateContent" in self.path if form == "gemini" else bool(body.get("stream"))
        if not streams:
            answer = whole(form, said)
            if self.script.llama and said.tokens:
                answer["timings"] = _timings(said.tokens)
            content = json.dumps(answer).encode()
            if fill:
                # What is filled in stands in the first text, which is where this mark is.
                head, _, tail = content.partition(_FILL.encode())
                return self._long(head, fill, tail)
            return self._body(content, "application/json", fault)
        usage_asked = bool((body.get("stream_options") or {}).get("include_usage"))
        sent = self._filled(form, said, fill, usage_asked)
        if form == "gemini" and parse_qs(urlsplit(self.path).query).get("alt") != ["sse"]:
            return self._stream(_as_array(sent), "application/json", fault)
        return self._stream((_as_event(event) for event in sent), "text/event-stream; charset=utf-8", fault)

    def _said(self, form: str, body: dict[str, Any], number: int) -> tuple[Spoken, int]:
        script = self.script
        with script.lock:
            arrived = next(script.generated)
        at = arrived if script.order == "arrival" else turns_of(form, body)
        turn = script.turns[min(at, len(script.turns) - 1)]
        tokens = turn.tokens or script.tokens
        model = body.get("model") or unquote(urlsplit(self.path).path.split("/models/")[-1].split(":")[0])
        if isinstance(turn, Say):
            text = turn.text + (_FILL if turn.fill_bytes else "")
            return Spoken(_pieces(text), None, {}, tokens, script.usage, number, model), turn.fill_bytes
        shell = shell_of(form, body)
        if shell is None:
            return Spoken(_pieces(script.aside), None, {}, tokens, script.usage, number, model), 0
        name, schema = shell
        arguments = arguments_for(schema, turn.command)
        if name == "local_shell":
            arguments = {"command": ["bash", "-lc", turn.command]}
        return Spoken(_pieces(turn.text), name, arguments, tokens, script.usage, number, model), 0

    def _filled(self, form: str, said: Spoken, fill: int, usage_asked: bool) -> Iterator[Event]:
        usage = usage_of(form, said)
        for name, data in events(form, said, usage_asked=usage_asked):
            if data == "[DONE]" and self.script.llama and said.tokens and usage is not None:
                # llama-server's last chunk has them, whether the usage was asked for or not.
                yield None, json.dumps({"choices": [], "timings": _timings(said.tokens)})
            if not fill or _FILL not in data:
                yield name, data
                continue
            if ".delta" not in (name or ".delta") and name != "content_block_delta":
                yield name, data.replace(_FILL, "")  # the whole text again, which is said once
                continue
            for start in range(0, fill, _PIECE):
                yield name, data.replace(_FILL, "x" * min(_PIECE, fill - start))

    def _long(self, head: bytes, fill: int, tail: bytes) -> None:
        self._begin(200, "application/json", len(head) + fill + len(tail))
        self.wfile.write(head)
        for start in range(0, fill, _PIECE):
            self.wfile.write(b"x" * min(_PIECE, fill - start))
        self.wfile.write(tail)

    def _json(self, status: int, value: Any, headers: Iterable[tuple[str, str]] = ()) -> None:
        self._send(status, json.dumps(value).encode(), headers=headers)

    def _send(
        self, status: int, content: bytes, kind: str = "application/json", headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        self._begin(status, kind, len(content), headers)
        self.wfile.write(content)

    def _begin(self, status: int, kind: str, length: int | None, headers: Iterable[tuple[str, str]] = ()) -> None:
        self.seen.answered = status
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("request-id", f"req_{self.seen.number:04d}")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header(*(("transfer-encoding", "chunked") if length is None else ("content-length", str(length))))
        self.end_headers()

    def _body(self, content: bytes, kind: str, fault: Fault | None) -> None:
        self._begin(200, kind, len(content))
        if isinstance(fault, Cut):
            self.wfile.write(content[: len(content) // 2])
            self.close_connection = True
        elif isinstance(fault, Reset):
            self.wfile.write(content[: fault.after_bytes])
            self._reset()
        elif isinstance(fault, Silence):
            self.script.stopping.wait(fault.seconds)
            self.wfile.write(content)
        elif isinstance(fault, Drip):
            for start in range(0, len(content), fault.piece_bytes):
                self.script.stopping.wait(fault.pause_seconds)
                self.wfile.write(content[start : start + fault.piece_bytes])
        else:
            self.wfile.write(content)

    def _stream(self, pieces: Iterable[bytes], kind: str, fault: Fault | None) -> None:
        self._begin(200, kind, None)
        sent = 0
        for at, piece in enumerate(pieces):
            if isinstance(fault, Cut) and at >= fault.events:
                self._chunk(piece[: len(piece) // 2])
                self.close_connection = True
                return
            if isinstance(fault, Silence) and at == fault.after_events:
                self.script.stopping.wait(fault.seconds)
            if isinstance(fault, Reset) and sent + len(piece) > fault.after_bytes:
                self._chunk(piece[: fault.after_bytes - sent])
                self._reset()
                return
            if isinstance(fault, Drip):
                for start in range(0, len(piece), fault.piece_bytes):
                    self.script.stopping.wait(fault.pause_seconds)
                    self._chunk(piece[start : start + fault.piece_bytes])
            else:
                self._chunk(piece)
            sent += len(piece)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(content), content))

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        os.close(self.connection.detach())  # the server itself would say goodbye first


_FILL: Final = "@fill@"
_PIECE: Final = 16 * 1024


def _pieces(text: str) -> tuple[str, ...]:
    """A word each, as a model says them."""
    words = text.split(" ")
    return tuple(word if at == len(words) - 1 else f"{word} " for at, word in enumerate(words)) if text else ()


def _as_event(event: Event) -> bytes:
    name, data = event
    return f"event: {name}\ndata: {data}\n\n".encode() if name else f"data: {data}\n\n".encode()


def _as_array(sent: Iterable[Event]) -> Iterator[bytes]:
    opened = "["
    for _, data in sent:
        yield f"{opened}{data}".encode()
        opened = ",\r\n"
    yield b"]"


def _timings(tokens: Tokens) -> dict[str, Any]:
    return {
        "cache_n": tokens.cache_read,
        "prompt_n": tokens.input - tokens.cache_read,
        "prompt_ms": 1.0,
        "predicted_n": tokens.output,
        "predicted_ms": 1.0,
    }
