"""A loopback port before a service that listens on a socket in a folder."""

from __future__ import annotations

import os
import selectors
import socket
import socketserver
import threading
from pathlib import Path


class Front:
    """Serves until `stop`; what comes in is carried to `folder/name` and back."""

    def __init__(self, port: int, folder: Path, name: str):
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        # By the open folder: a socket's path may have 107 bytes, and a test's folder is longer.
        self._server = _Server(("127.0.0.1", port), f"/proc/self/fd/{self._folder}/{name}")

    def start(self) -> Front:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        os.close(self._folder)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], path: str):
        self.path = path
        super().__init__(address, _Carrier)


class _Carrier(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as inner, selectors.DefaultSelector() as ready:
            try:
                inner.connect(self.server.path)
            except OSError:
                return  # it is not up: the caller sees a connection that was closed
            other = {inner: self.request, self.request: inner}
            for one in other:
                ready.register(one, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    content = key.fileobj.recv(65536)  # type: ignore[union-attr]
                    if not content:
                        return
                    other[key.fileobj].sendall(content)
