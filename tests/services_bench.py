"""A private Sigstore deployment of the real services on loopback: keys of its own, free ports, no database.

python -m tests.services_bench start FOLDER    builds what is lacking, starts all, and leaves it running
python -m tests.services_bench stop FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.services_build import FULCIO, REKOR, TESSERACT, TSA, CannotBuild, build
from tests.services_front import Front
from tests.services_issuer import Issuer, minted_by
from tests.services_keys import LOG_NAME, PASSWORD, make_keys, write_configs, write_fulcio_config

_ROOT: Final = Path(__file__).resolve().parents[1]
_TSA_SOCKET: Final = "tsa.sock"
DIRECTLY: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Loopback is reached so whatever proxies the surroundings name."""
_READY_SECONDS: Final = 60
_STARTS: Final = 5
_PORTS: Final = (
    "issuer",
    "ct",
    "rekor",
    "rekor-grpc",
    "rekor-metrics",
    "tsa",
    "fulcio",
    "fulcio-grpc",
    "fulcio-metrics",
)
_TYPES: Final = {"email": "email", "github": "github-workflow", "gitlab": "gitlab-pipeline"}


class NotReady(Exception):
    """A service that did not answer, with the end of its log."""


class Services:
    """One deployment in `folder`: `trust_config.json`, `trusted_root.json`, `signing_config.json`, logs and pids.

    The issuer runs in this process, and the others end with it, however it ends; `Left` outlives it.
    """

    tie: tuple[str, ...] = ("setpriv", "--pdeathsig", "KILL")

    def __init__(self, folder: Path):
        self.folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        self._issuer: Issuer | None = None
        self._front: Front | None = None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_keys(folder)

    def start(self) -> Services:
        """Builds what is lacking. Where somebody took a port between our look and our use, others are tried.

        Raises CannotBuild, NotReady.
        """
        build((TSA, REKOR, TESSERACT, FULCIO))
        for left in reversed(range(_STARTS)):
            try:
                self._start_once()
                break
            except (NotReady, OSError):
                self.stop()
                if not left:
                    raise
        write_configs(self.folder, self.url)
        return self

    def stop(self) -> None:
        for name, running in self._running.items():
            running.send_signal(signal.SIGCONT)
            running.terminate()
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
            (self.folder / f"{name}.pid").unlink(missing_ok=True)
        self._running.clear()
        for within in (self._issuer, self._front):
            if within is not None:
                within.stop()
        self._issuer = self._front = None
        (self.folder / _TSA_SOCKET).unlink(missing_ok=True)

    @contextlib.contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """It keeps its port, and answers nothing."""
        self._running[name].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._running[name].send_signal(signal.SIGCONT)

    @property
    def pids(self) -> dict[str, int]:
        return {name: running.pid for name, running in self._running.items()}

    @property
    def trust_config(self) -> Path:
        return self.folder / "trust_config.json"

    @property
    def trusted_root(self) -> Path:
        return self.folder / "trusted_root.json"

    @property
    def signing_config(self) -> Path:
        return self.folder / "signing_config.json"

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name]}"

    def issuer_url(self, kind: str = "email") -> str:
        return f"{self.url('issuer')}/{kind}"

    def token(self, kind: str = "email", **changes: Any) -> str:
        assert self._issuer is not None, "not started"
        return self._issuer.token(kind, **changes)

    def config_with(self, path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
        """Another trust config, at `path`: this one after `change` of its JSON."""
        value = json.loads(self.trust_config.read_bytes())
        change(value)
        path.write_text(json.dumps(value))
        return path

    def _start_once(self) -> None:
        self._ports = dict(zip(_PORTS, _free_ports(len(_PORTS)), strict=True))
        self._start_own()
        write_fulcio_config(self.folder / "fulcio.json", {self.issuer_url(one): kind for one, kind in _TYPES.items()})
        self._run(
            "ct",
            *self.tie,
            TESSERACT.path,
            "--private_key=ct.pem",
            "--origin=ct.local",
            "--storage_dir=ct",
            "--roots_pem_file=ca.pem",
            "--ext_key_usages=CodeSigning",
            "--enable_publication_awaiter=false",
            f"--http_endpoint=127.0.0.1:{self._ports['ct']}",
        )
        self._run(
            "rekor",
            *self.tie,
            REKOR.path,
            "serve",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            f"--http-port={self._ports['rekor']}",
            f"--grpc-port={self._ports['rekor-grpc']}",
            f"--http-metrics-port={self._ports['rekor-metrics']}",
            f"--hostname={LOG_NAME}",
            "--storage-dir=rekor",
            "--signer-filepath=rekor.pem",
            "--checkpoint-interval=1s",
        )
        # Whatever it is told, it serves its figures on port 2112 of every address: it has a network of its own.
        self._run(
            "tsa",
            *_apart(),
            *self.tie,
            TSA.path,
            "serve",
            "--scheme=unix",
            f"--socket-path={_TSA_SOCKET}",
            "--timestamp-signer=file",
            "--file-signer-key-path=tsa.pem",
            "--certificate-chain-path=tsa_chain.pem",
            "--disable-ntp-monitoring",
        )
        self._wait("ct", f"{self.url('ct')}/ct/v1/get-roots")  # without its log Fulcio answers nothing
        self._run(
            "fulcio",
            *self.tie,
            FULCIO.path,
            "serve",
            "--ca=fileca",
            "--fileca-cert=ca.pem",
            "--fileca-key=ca.key",
            f"--fileca-key-passwd={PASSWORD}",
            "--fileca-watch=false",
            f"--ct-log-url={self.url('ct')}",
            "--config-path=fulcio.json",
            "--host=127.0.0.1",
            f"--port={self._ports['fulcio']}",
            "--grpc-host=127.0.0.1",
            f"--grpc-port={self._ports['fulcio-grpc']}",
            f"--metrics-port={self._ports['fulcio-metrics']}",
            f"--legacy-unix-domain-socket=@bench-{os.getpid()}-{self._ports['fulcio']}",  # else one name a host
        )
        self._wait("tsa", f"{self.url('tsa')}/api/v1/timestamp/certchain")
        self._wait("rekor", f"{self.url('rekor')}/healthz")
        self._wait("fulcio", f"{self.url('fulcio')}/api/v2/configuration")

    def _start_own(self) -> None:
        self._issuer = Issuer(self._ports["issuer"]).start()
        self._front = Front(self._ports["tsa"], self.folder, _TSA_SOCKET).start()

    def _run(self, name: str, *words: str | Path) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(
                [str(word) for word in words],
                cwd=self.folder,
                env={**os.environ, "GOMEMLIMIT": "1GiB", "PYTHONPATH": str(_ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._running[name] = started
        (self.folder / f"{name}.pid").write_text(f"{started.pid} {_started_at(started.pid)}\n")

    def _wait(self, name: str, url: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if self._running[name].poll() is not None:
                raise NotReady(f"{name} ended: {self._last_words(name)}")
            try:
                with DIRECTLY.open(url, timeout=2):
                    return
            except OSError:
                time.sleep(0.1)
        raise NotReady(f"{name} does not answer: {self._last_words(name)}")

    def _last_words(self, name: str) -> str:
        return " / ".join((self.folder / f"{name}.log").read_text(errors="replace").splitlines()[-3:])


class Left(Services):
    """Services that outlive this process: what is ours of them is one more process beside them."""

    tie = ()

    def _start_own(self) -> None:
        own = ("-m", "tests.services_bench", "own", self.folder)
        self._run("issuer", sys.executable, *own, str(self._ports["issuer"]), str(self._ports["tsa"]))
        self._wait("issuer", f"{self.issuer_url()}/jwks")


def stop_left(folder: Path) -> int:
    """How many were ended. A pid that is somebody else's by now is left alone."""
    ended = 0
    for path in sorted(folder.glob("*.pid")):
        pid, started = (int(word) for word in path.read_text().split())
        if _started_at(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                ended += 1
        path.unlink()
    return ended


def _apart() -> tuple[str, ...]:
    """A network of its own, where that may be made here."""
    words = ("unshare", "--net") if os.getuid() == 0 else ("unshare", "--net", "--map-root-user")
    made = subprocess.run([*words, "true"], capture_output=True, check=False)
    return words if made.returncode == 0 else ()


def _started_at(pid: int) -> int | None:
    """The moment in ticks since boot; None where no such process is."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def main(argv: list[str]) -> int:
    verb, folder = argv[0], Path(argv[1])
    if verb == "own":
        Front(int(argv[3]), folder, _TSA_SOCKET).start()
        Issuer(int(argv[2])).serve()
    if verb == "stop":
        print(f"services: {stop_left(folder)} ended")  # noqa: T201
        return 0
    stop_left(folder)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        services = Left(folder).start()
    except (CannotBuild, NotReady, OSError) as error:
        stop_left(folder)
        print(f"services: {error}", file=sys.stderr)  # noqa: T201
        return 4
    print(f"trust config  {services.trust_config}")  # noqa: T201
    print(f"issuer        {services.issuer_url()}")  # noqa: T201
    print(f"a token       {minted_by(services.issuer_url())} > token")  # noqa: T201
    print(f"stop them     scripts/services stop {folder}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
