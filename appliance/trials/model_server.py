"""The run's own model server: one container without a network, whose engine listens on a socket in a folder of ours.

It serves one model in as many slots as the plan says, and is started anew once where it ends by itself: the trials that
it left in the lurch are `errored: provider_failed`, and what it said lies in the run's folder.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Self

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused
from appliance.files import write_atomically
from appliance.ports import ContainerSpec, Engine, EngineFailed, ExecOutcome, ExecSpec, Mount
from appliance.records.plan import PlannedServer
from appliance.tasks.model import Limits

ROLE: Final = "model"
PROGRAM: Final = "/usr/local/bin/llama-server"
SOCKET_FOLDER: Final = "/run/model"
SOCKET: Final = "llama.sock"
WEIGHTS: Final = "/run/weights.gguf"
LOG: Final = "model-server.log"
_READY_SECONDS: Final = 300.0
_BETWEEN_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 5.0
_BUSY_SECONDS: Final = 600.0
"""A slot that answers another trial is emptied once it is done."""
_SAID_BYTES: Final = 1024 * 1024
_LAST_BYTES: Final = 400
_MIB: Final = 1024 * 1024
_STARTS: Final = 2
_PIDS: Final = 512
_USER: Final = 1000
_ILLEGAL: Final = 132
"""SIGILL."""
_FLAGS: Final = ("avx", "avx2", "fma", "f16c", "bmi2")
"""As /proc/cpuinfo calls what images/llama is built for."""


def lacking_flags(cpuinfo: str) -> tuple[str, ...]:
    """What the engine needs and this processor lacks; nothing where its flags are not told at all."""
    told = [line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.split(":")[0].strip() == "flags"]
    return tuple(flag for flag in _FLAGS if told and any(flag not in flags for flags in told))


def devices(listed: str) -> tuple[str, ...]:
    """Names in what `llama-server --list-devices` prints: `CUDA0` of `  CUDA0: NVIDIA H100 (81000 MiB, ...)`."""
    lines = listed.partition("Available devices:")[2].splitlines()
    return tuple(line.split(":")[0].strip() for line in lines if line.startswith(" ") and ":" in line)


def server_argv(planned: PlannedServer, model: str) -> tuple[str, ...]:
    """One slot, whose own cache alone is used from one request to the next: equal requests get equal answers (rows M10,
    M11). A path for slots is what lets them be emptied; nothing is written there."""
    words = [PROGRAM, "-m", WEIGHTS, "--alias", model, "--host", f"{SOCKET_FOLDER}/{SOCKET}"]
    words += ["-np", str(planned.slots), "-c", str(planned.context)]
    words += ["-t", str(planned.threads), "-tb", str(planned.threads)]
    words += ["--cache-ram", "0", "--jinja", "--metrics", "--offline", "--slot-save-path", "/tmp"]  # noqa: S108
    words += ["-ngl", "999" if planned.gpus else "0"]
    for flag, name in (("--temp", "temperature"), ("--seed", "seed")):
        if name in planned.sampling:
            words += [flag, f"{planned.sampling[name]:g}"]
    return tuple(words)


def server_limits(planned: PlannedServer, weights_bytes: int) -> Limits:
    """A CPU a thread; memory for the weights, a quarter of them and a GiB: what a context and its buffers take."""
    return Limits(
        cpus=float(planned.threads),
        memory_mib=1024 + weights_bytes * 5 // 4 // _MIB,
        pids=_PIDS,
        disk_mib=16,
    )


class ModelServer:
    """Entered, it answers at `socket`; `make_fresh` is called before each trial."""

    def __init__(
        self,
        engine: Engine,
        planned: PlannedServer,
        *,
        argv: tuple[str, ...],
        image: str,
        weights: Path,
        folder: Path,
        labels: Mapping[str, str],
        cgroup: str | None,
        log: Path,
        rootless: bool = False,
        report: Callable[[str], None] = lambda _words: None,
    ):
        """`image`: the engine's id. `folder`: private, of this run; `log`: where what it said is kept if it ends."""
        self._engine = engine
        self._planned = planned
        self._argv = argv
        self._image = image
        self._weights = weights
        self._folder = folder
        self._labels = labels
        self._cgroup = cgroup
        self._log = log
        self._owner = (0, 0) if rootless else _owner()
        self._report = report
        self._lock = threading.Lock()
        self._container: str | None = None
        self._thread: threading.Thread | None = None
        self._ended: ExecOutcome | EngineFailed | None = None
        self._starts = 0

    @property
    def socket(self) -> Path:
        return self._folder / SOCKET

    def __enter__(self) -> Self:
        self._refuse_other_weights()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def make_fresh(self) -> None:
        """It answers, or is started anew; what it keeps of earlier requests is gone, so that no trial finds its prompt
        read by another. Raises HostRefused where it ended once more."""
        self._ensure()
        for slot in range(self._planned.slots):
            status = _asked(self.socket, "POST", f"/slots/{slot}?action=erase", _BUSY_SECONDS)
            if status not in (None, http.client.OK):
                raise HostRefused(
                    f"the model server does not empty its cache (status {status})",
                    where=self._planned.image.config,
                    mend="an engine that takes /slots/N?action=erase",
                    reason="model_server",
                )

    def _ensure(self) -> None:
        with self._lock:
            if self._ended is None:
                return
            words = self._keep_log()
            if self._starts >= _STARTS:
                raise HostRefused(
                    f"the model server ended {self._starts} times: {words}",
                    where=str(self._log),
                    mend=f"read what it said, then: appliance run --resume {self._log.parent}",
                    reason="model_server",
                )
            self._report(f"the model server ended ({words}): it is started anew")
            self._stop()
            self._start()

    def close(self) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> None:
        self._starts += 1
        self._ended = None
        self._make_folder()
        uid, gid = self._owner
        self._container = self._engine.create(
            ContainerSpec(
                image=self._image,
                role=ROLE,
                labels=self._labels,
                limits=server_limits(self._planned, self._weights.stat().st_size),
                network="none",
                cgroup_parent=self._cgroup,
                mounts=(
                    Mount("bind", str(self._folder), SOCKET_FOLDER),
                    Mount("bind", str(self._weights), WEIGHTS, read_only=True),
                ),
                user=f"{uid}:{gid}",
                workdir="/",
                gpus=self._planned.gpus,
            )
        )
        self._engine.start(self._container)
        if self._planned.gpus:
            self._refuse_without_device(self._container)
        self._thread = threading.Thread(target=self._serve, args=(self._container,), name="model-server", daemon=True)
        self._thread.start()
        self._wait()

    def _refuse_without_device(self, container: str) -> None:
        """A record that says GPU is never of an engine that had none: the one that ships is built for the CPU alone."""
        ended = self._engine.execute(container, ExecSpec((PROGRAM, "--list-devices"), workdir="/", timeout_seconds=60))
        if ended.exit != 0 or not devices(ended.stdout.kept.decode(errors="replace")):
            raise HostRefused(
                "the engine sees no GPU in its container",
                where="--gpus",
                mend="leave it away, or give an images/llama of your own that is built with a GPU backend",
                reason="no_gpu",
            )

    def _make_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True, mode=0o700)
        if os.geteuid() == 0 and self._owner != (0, 0):
            os.chown(self._folder, *self._owner)

    def _serve(self, container: str) -> None:
        uid, gid = self._owner
        spec = ExecSpec(self._argv, user=f"{uid}:{gid}", workdir="/", capture_bytes=_SAID_BYTES)
        try:
            ended: ExecOutcome | EngineFailed = self._engine.execute(container, spec)
        except EngineFailed as failed:
            ended = failed
        if container == self._container:
            self._ended = ended

    def _wait(self) -> None:
        until = time.monotonic() + _READY_SECONDS
        while _asked(self.socket, "GET", "/health", _ANSWER_SECONDS) != http.client.OK:
            if self._ended is not None:
                raise HostRefused(
                    f"the model server did not start: {self._keep_log()}",
                    where=str(self._log),
                    mend="read what it said; the weights have to be a GGUF that this engine knows",
                    reason="model_server",
                )
            if time.monotonic() >= until:
                raise HostRefused(
                    f"the model server did not answer within {_READY_SECONDS:g} s",
                    where=str(self._weights),
                    mend="a smaller model, or a host with more memory",
                    reason="model_server",
                )
            time.sleep(_BETWEEN_SECONDS)

    def _stop(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            self._engine.remove(container)
        if self._thread is not None:
            self._thread.join(_ANSWER_SECONDS)
            self._thread = None

    def _keep_log(self) -> str:
        """How it ended, and its last line."""
        ended = self._ended
        if not isinstance(ended, ExecOutcome):
            return str(ended)
        said = ended.stdout.kept + ended.stderr.kept
        write_atomically(self._log, said)
        last = said[-_LAST_BYTES:].decode(errors="replace").strip().rpartition("\n")[2]
        if ended.exit == _ILLEGAL:
            last = "the engine is built for AVX2, FMA, F16C and BMI2, which this processor lacks"
        return ended.start_error or f"exit {ended.exit}: {last}"

    def _refuse_other_weights(self) -> None:
        where = str(self._weights)
        try:
            found = sha256_of_file(self._weights)
            readable = self._owner == (0, 0) or os.geteuid() != 0 or bool(self._weights.stat().st_mode & 0o004)
        except OSError as error:
            raise HostRefused(error.strerror or str(error), where=where, mend="--model-file PATH") from error
        if found != self._planned.weights:
            raise HostRefused(
                f"the weights are {found[:12]}, planned are {self._planned.weights[:12]}",
                where=where,
                mend="--model-file PATH to the planned ones",
                reason="weights",
            )
        if not readable:
            raise HostRefused("only root may read them", where=where, mend=f"chmod o+r {where}", reason="weights")


def _owner() -> tuple[int, int]:
    """Whom the server runs as: one of whose socket we are let in."""
    return (_USER, _USER) if os.geteuid() == 0 else (os.geteuid(), os.getegid())


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, seconds: float):
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fspath(self._path))


def _asked(path: Path, method: str, target: str, seconds: float) -> int | None:
    """The status; None where nobody answered."""
    connection = _Connection(path, seconds)
    try:
        connection.request(method, target)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
