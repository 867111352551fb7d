"""A registry on loopback with a few packages of its own, which the real npm asks."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


def tarball(files: Mapping[str, bytes | tarfile.TarInfo], *, top: str = "package") -> bytes:
    """As a publisher would make it; a value may be a TarInfo (a link, say)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
                continue
            item = tarfile.TarInfo(f"{top}/{path}")
            item.size, item.mode = len(content), 0o755 if content.startswith(b"#!") else 0o600
            tar.addfile(item, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


class Registry:
    """Packages by name and version; `altered` serves other bytes than were published."""

    def __init__(self) -> None:
        self.versions: dict[str, dict[str, dict[str, Any]]] = {}
        self.tarballs: dict[str, bytes] = {}
        self.altered: set[str] = set()
        self.url = ""

    def publish(self, name: str, version: str, files: Mapping[str, bytes] = {}, **described: Any) -> bytes:
        manifest = {"name": name, "version": version, **described}
        content = tarball({"package.json": json.dumps(manifest).encode(), **files})
        path = f"/-/{name.replace('/', '-')}-{version}.tgz"
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
        self.tarballs[path] = content
        manifest["dist"] = {"tarball": path, "integrity": integrity}
        self.versions.setdefault(name, {})[version] = manifest
        return content

    def answer(self, path: str) -> tuple[int, bytes]:
        if path in self.tarballs:
            return 200, self.tarballs[path] + (b"x" if path in self.altered else b"")
        versions = self.versions.get(unquote(path).lstrip("/"))
        if versions is None:
            return 404, b"{}"
        listed = {
            version: {**one, "dist": {**one["dist"], "tarball": self.url + one["dist"]["tarball"]}}
            for version, one in versions.items()
        }
        return 200, json.dumps(
            {"name": unquote(path).lstrip("/"), "versions": listed, "dist-tags": {"latest": max(listed)}}
        ).encode()


@contextmanager
def served(registry: Registry) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = registry.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """A test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
