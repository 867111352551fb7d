"""A cascade that speaks cascade-v1 and nothing of ours: plain sockets, its answers scripted."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PATCH = """--- a/program.sh
+++ b/program.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-exit 1
+exit 0
"""
FENCED = f"Here is the mend:\n\n```diff\n{PATCH}```\nIt exits with 0.\n"
WHO = {
    "protocol": "cascade-v1",
    "name": "stub",
    "version": "1.2.3",
    "commit": "0f" * 20,
    "synthetic": False,
    "stages": ["cache", "kv", "neural"],
    "metering": "made up",
}
TIERS = [
    {"stage": "cache", "microjoules": 3},
    {"stage": "kv", "microjoules": 50},
    {"stage": "neural", "microjoules": 700},
]
ANSWER = {
    "response": FENCED,
    "stage": "neural",
    "microjoules": 753,
    "usage": {"inputTokens": 11, "outputTokens": 22},
    "tiers": TIERS,
}

Answer = dict[str, Any] | bytes | Callable[[socket.socket], None]
"""Bytes are sent as they are, and the connection is closed; a callable does what it likes with the connection."""


class Stub:
    """`asked` has every request, in order."""

    def __init__(self, answer: Answer, who: dict[str, Any] | None):
        self.answer = answer
        self.who = who
        self.asked: list[dict[str, Any]] = []

    def told(self, request: dict[str, Any]) -> Answer:
        self.asked.append(request)
        if "prompts" in request:
            return {"warmed": len(request["prompts"])}
        if "prompt" in request:
            return self.answer
        return self.who if self.who is not None else b""


@contextmanager
def stub_socket(path: Path, answer: Answer = ANSWER, who: dict[str, Any] | None = WHO) -> Iterator[Stub]:
    """`who` None: it hangs up on whoever asks who it is."""
    stub = Stub(answer, who)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    path.chmod(0o666)
    listening.listen()
    thread = threading.Thread(target=_accept, args=(listening, stub), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        # A close alone leaves `accept` where it waits; begun anew after a signal, it would take another socket's
        # connections, which has the same descriptor by then.
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()
        listening.close()
        path.unlink(missing_ok=True)


def _accept(listening: socket.socket, stub: Stub) -> None:
    while True:
        try:
            link, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(link, stub), daemon=True).start()


def _serve(link: socket.socket, stub: Stub) -> None:
    with link, link.makefile("rb") as lines:
        for line in lines:
            said = stub.told(json.loads(line))
            if callable(said):
                said(link)
                return
            if isinstance(said, bytes):
                link.sendall(said)
                return
            link.sendall(json.dumps(said).encode() + b"\n")


@contextmanager
def stub_http(answer: dict[str, Any]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._say(WHO if self.path == "/healthz" else None)

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            warmed = {"warmed": len(asked.get("prompts", []))}
            self._say({"/resolve": answer, "/warm": warmed}.get(self.path))

        def _say(self, said: dict[str, Any] | None) -> None:
            body = json.dumps(said or {"error": {"code": "unknown_route", "message": "no such route"}}).encode()
            self.send_response(404 if said is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def silent(link: socket.socket) -> None:
    """Takes the request, and says nothing until its client is gone."""
    with contextlib.suppress(OSError):
        while link.recv(4096):
            time.sleep(0.01)


def endless(link: socket.socket) -> None:
    """One line that does not end."""
    with contextlib.suppress(OSError):
        while True:
            link.sendall(b"x" * 65536)
