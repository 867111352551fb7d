"""Counter plug-ins installed into a folder for PYTHONPATH, and the loopback server that they ask."""

from __future__ import annotations

import contextlib
import http.server
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

_T = TypeVar("_T")
_SOURCES = Path(__file__).parent / "plugins"


@contextlib.contextmanager
def installed(*, closed: bool = False, **versions: str) -> Iterator[Path]:
    """Folder of `wall_meter="1.2"`, `scripted="0.1"`; readable by everybody, as an installed package is.

    `closed`: below one that is root's alone, beside a file that is none of a plug-in's business.
    """
    outer = Path(tempfile.mkdtemp(prefix="counter-plugins-"))
    outer.chmod(0o700 if closed else 0o755)
    (outer / "secret").write_text("s3cret")
    folder = outer / "site"
    folder.mkdir(mode=0o755)
    for name, version in versions.items():
        shutil.copy(_SOURCES / name / f"{name}.py", folder)
        metadata = folder / f"{name}-{version}.dist-info"
        metadata.mkdir()
        dashed = name.replace("_", "-")
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dashed}\nVersion: {version}\n")
        (metadata / "entry_points.txt").write_text(f"[bench_appliance.counters]\n{dashed} = {name}:open_{name}\n")
    try:
        yield folder
    finally:
        shutil.rmtree(outer)


class Loopback:
    """Answers `/what` with what `answers[what]` gives, as JSON; a callable is asked, a status is sent as one."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        outer = self

        class Answering(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                what = self.path.strip("/")
                outer.asked.append(what)
                answer = outer.answers.get(what, 404)
                answer = answer() if callable(answer) else answer
                status, body = (answer, b"{}") if isinstance(answer, int) else (200, json.dumps(answer).encode())
                with contextlib.suppress(ConnectionError):
                    self.send_response(status)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def until(found: Callable[[], _T], accept: Callable[[_T], bool], seconds: float = 20.0) -> _T:
    """The first that is accepted; what came last where none was."""
    end = time.monotonic() + seconds
    while not accept(last := found()) and time.monotonic() < end:
        time.sleep(0.01)
    return last
