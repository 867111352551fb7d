"""Builds from source in a container of ours: no network, read-only root, user 1000, always at the same path.

What could show in the bytes is fixed: the tools (a pinned image), the folder, user and host name, the clock that a
build may ask for (SOURCE_DATE_EPOCH), locale and time zone. Two builds at two times give the same bytes.
"""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from appliance.errors import HostRefused, InputRefused
from appliance.images.definition import BuildFromSource
from appliance.images.store import Report
from appliance.pins import Pin
from appliance.ports import LOCK_LABEL, RUN_LABEL, ContainerSpec, Engine, ExecOutcome, ExecSpec, Locks, Mount
from appliance.scratch import shared_scratch
from appliance.tasks.model import Limits

FOLDER: Final = "/build"
_ARCHIVE: Final = "/run/source.tar.gz"
_UNPACK: Final = ("tar", "-xzf", _ARCHIVE, "--strip-components=1", "--no-same-owner", "-C", FOLDER)
_LIMITS: Final = Limits(wall_seconds=7200, cpus=2.0, memory_mib=6144, pids=512, disk_mib=2048, test_seconds=60)
_ROOM: Final = Mount("tmpfs", "", FOLDER, options="rw,exec,nosuid,nodev,size=4g,uid=1000,gid=1000,mode=0755")
_MAX_PROGRAM_BYTES: Final = 256 * 1024 * 1024
_SAID_SECONDS: Final = 15.0
_PROGRESS: Final = re.compile(rb"\[ *(\d+)%\]")


class ContainerWorkshop:
    """`compiling.Workshop` on an engine. `ensure` gives the engine's id of a pinned image."""

    def __init__(self, engine: Engine, locks: Locks, ensure: Callable[[Pin], str], report: Report):
        self._engine = engine
        self._locks = locks
        self._ensure = ensure
        self._report = report

    def build(self, image: Pin, archive: Path, build: BuildFromSource, epoch: int, into: Path) -> None:
        named = f"{build.source} {build.version}"
        self._report(f"building {named} from source, in a container without a network: minutes")
        run = f"build_{secrets.token_hex(6)}"
        with self._locks.hold(run) as lock:
            spec = ContainerSpec(
                image=self._ensure(image),
                role="harness",
                labels={RUN_LABEL: run, LOCK_LABEL: str(lock)},
                limits=_LIMITS,
                network="none",
                cgroup_parent=None,
                mounts=(Mount("bind", str(archive), _ARCHIVE, read_only=True), _ROOM),
                env={"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC", **build.env},
                workdir=FOLDER,
            )
            container = self._engine.create(spec)
            try:
                self._engine.start(container)
                self._do(container, ExecSpec(_UNPACK, workdir=FOLDER, timeout_seconds=600), f"{named} does not unpack")
                with shared_scratch() as scratch, _progress(scratch / "said", named, self._report):
                    # The lowest priority: whoever builds goes on working meanwhile.
                    command = ExecSpec(
                        ("nice", "-n", "19", *build.command),
                        workdir=FOLDER,
                        timeout_seconds=_LIMITS.wall_seconds,
                        spool=scratch / "said",
                    )
                    self._do(container, command, f"{named} does not build")
                for path in build.install:
                    self._copied(container, path, into / path, named)
            finally:
                self._engine.remove(container)

    def _copied(self, container: str, path: str, target: Path, named: str) -> None:
        asked = ExecSpec(("cat", path), workdir=FOLDER, timeout_seconds=600, capture_bytes=_MAX_PROGRAM_BYTES)
        said = self._do(container, asked, f"{named} builds no {path}").stdout
        if said.truncated:
            raise InputRefused(f"{path} is over {_MAX_PROGRAM_BYTES} bytes", where="build")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(said.kept)

    def _do(self, container: str, spec: ExecSpec, failure: str) -> ExecOutcome:
        ended = self._engine.execute(container, spec)
        if ended.timed_out:
            raise HostRefused(f"{failure} within {spec.timeout_seconds:g} s", where="build")
        if ended.start_error or ended.exit:
            raise InputRefused(f"{failure}: {ended.start_error or _last_words(ended)}", where="build")
        return ended


def _last_words(ended: ExecOutcome) -> str:
    said = (ended.stdout.kept + b"\n" + ended.stderr.kept).decode("utf-8", "replace").splitlines()
    lines = [line.strip() for line in said if line.strip()]
    telling = [line for line in lines if "error" in line.lower()]
    return (telling or lines or [f"exit {ended.exit}"])[-1][:300]


@contextmanager
def _progress(spool: Path, named: str, report: Report) -> Iterator[None]:
    """Reports how far the build says it is, every quarter of a minute."""
    over = threading.Event()

    def watch() -> None:
        before = None
        while not over.wait(_SAID_SECONDS):
            try:
                found = _PROGRESS.findall(spool.with_name(f"{spool.name}.stdout").read_bytes())
            except OSError:
                continue
            if found and found[-1] != before:
                before = found[-1]
                report(f"building {named}: {before.decode()} %")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
