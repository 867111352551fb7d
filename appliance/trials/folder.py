"""The run folder: plan, journal and blobs on disk; what is said to be finished is on the disk already."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.digests import sha256_hex
from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.files import disk_of, fsync_folder, store_blob, write_atomically, writing_atomically
from appliance.reading import open_regular, read_regular
from appliance.records import journal
from appliance.records.blob import BlobRef
from appliance.records.journal_file import JournalFile, read_journal
from appliance.records.plan import RunPlan, TrialPlan, trial_keys
from appliance.records.record import HarnessStamp
from appliance.trials.sources import Sources

_PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class RunFolder:
    root: Path

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def in_flight(self) -> Path:
        """A file a trial that is under way, beside it what its solver prints; what is there when nothing runs was cut
        off."""
        return self.root / ".in-flight"

    def landed(self, trial: str) -> None:
        """The trial's line is on the disk."""
        for end in ("", ".stdout", ".stderr"):
            (self.in_flight / f"{trial}{end}").unlink(missing_ok=True)

    @property
    def sources(self) -> Path:
        """Where the suite and the solvers lay on the machine that started the run: no part of what it measured."""
        return self.root / ".sources.json"

    def record(self, solver: str) -> Path:
        return self.root / "records" / f"{solver}.json"

    def bundle(self, solver: str) -> Path:
        return self.root / "records" / f"{solver}.sigstore.json"

    def keep(self, content: bytes) -> BlobRef:
        """Raises HostRefused where the disk does not take it."""
        digest = sha256_hex(content)
        with self.taking():
            store_blob(self.blobs, content, digest)
        return BlobRef(sha256=digest, bytes=len(content))

    def keep_file(self, path: Path) -> BlobRef:
        """As `keep`, of a file that nobody writes to any more; no more than a piece of it is held at a time."""
        digest, size = hashlib.sha256(), 0
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE_BYTES):
                digest.update(piece)
                size += len(piece)
        kept = BlobRef(sha256=digest.hexdigest(), bytes=size)
        if not self.path_of(kept).exists():
            with self.taking(), path.open("rb") as stream, writing_atomically(self.path_of(kept)) as copy:
                shutil.copyfileobj(stream, copy, _PIECE_BYTES)
        return kept

    def keep_journal(self, size: int) -> BlobRef:
        """The journal's first `size` bytes as a blob. Raises HostRefused where the disk does not take it."""
        digest = hashlib.sha256()
        for piece in self._journal_pieces(size):
            digest.update(piece)
        kept = BlobRef(sha256=digest.hexdigest(), bytes=size)
        if not self.path_of(kept).exists():
            with self.taking(), writing_atomically(self.path_of(kept)) as stream:
                stream.writelines(self._journal_pieces(size))
        return kept

    def _journal_pieces(self, size: int) -> Iterator[bytes]:
        with open_regular(self.journal) as stream:
            while size and (piece := stream.read(min(size, _PIECE_BYTES))):
                yield piece
                size -= len(piece)

    def path_of(self, blob: BlobRef) -> Path:
        return self.blobs / "sha256" / blob.sha256

    def blob(self, blob: BlobRef) -> bytes:
        """Raises InputRefused where it is not there any more, or other bytes than it was."""
        path = self.path_of(blob)
        try:
            content = read_regular(path, blob.bytes)
        except OSError as error:
            raise InputRefused(error.strerror or str(error), where=str(path)) from error
        if sha256_hex(content) != blob.sha256:
            raise InputRefused("is not what its name says", where=str(path))
        return content

    def taking(self) -> contextlib.AbstractContextManager[None]:
        """Within it, a full disk under this folder is refused in words."""
        return disk_of(self.root, f"make room, then: appliance run --resume {self.root}")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Two harnesses never write into one folder. Raises HostRefused where another one does.

        The lock is on the folder itself, and goes with the process that holds it, however that ends.
        """
        with self.taking():
            self.root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                words = "another process is writing a run into this folder"
                raise HostRefused(
                    words, where=str(self.root), mend="wait for its end, or name another --out"
                ) from error
            yield
        finally:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                # Nothing came of it: an empty folder is no run.
                self.root.rmdir()


class JournalWriter:
    """Appends whole lines; `append` returns once its line is on the disk. Safe for many threads.

    Lines of threads that wait for the disk at the same time share one fsync.
    """

    def __init__(self, path: Path, kept_bytes: int = 0):
        """`kept_bytes`: where the whole lines of an earlier run end; a half-written one after it is cut off."""
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._descriptor, kept_bytes)
        os.lseek(self._descriptor, kept_bytes, os.SEEK_SET)
        self._writing = threading.Lock()
        self._syncing = threading.Lock()
        self._written = kept_bytes
        self._durable = kept_bytes
        self._failed = False
        fsync_folder(path.parent)

    def append(self, line: journal.Line) -> None:
        """Raises HostRefused where the disk does not take it."""
        content = journal.encode(line)
        try:
            with self._writing:
                self._refuse_closed()
                self._write(content)
                self._written += len(content)
                mine = self._written
            with self._syncing:
                if self._durable < mine:
                    self._refuse_closed()
                    reached = self._written
                    os.fsync(self._descriptor)
                    self._durable = reached
        except OSError as error:
            self._failed = True
            mend = f"make room, then: appliance run --resume {self._path.parent}"
            raise HostRefused(error.strerror or str(error), where=str(self._path), mend=mend) from error

    def _write(self, content: bytes) -> None:
        """Whole, or not at all: a line of another thread must not come after half of this one."""
        try:
            _write_all(self._descriptor, content)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, self._written)
                os.lseek(self._descriptor, self._written, os.SEEK_SET)
            raise

    def close(self) -> None:
        """Threads that a second signal left behind find it closed: its number may be another file's by then."""
        with self._writing, self._syncing:
            os.close(self._descriptor)
            self._descriptor = -1

    def _refuse_closed(self) -> None:
        if self._descriptor < 0:
            raise ValueError("the journal is closed")
        if self._failed:
            raise OSError(errno.EIO, "an earlier line could not be written")


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def refuse_taken(folder: RunFolder, *, resumable: bool = True) -> None:
    """Raises UsageRefused where the folder holds a run; `resumable`: whether whoever asks could go on with it."""
    if folder.plan.exists() or folder.journal.exists():
        mend = f"--resume {folder.root}, or another --out" if resumable else "another --out"
        raise UsageRefused("holds a run already", where=str(folder.root), mend=mend)


def start_folder(folder: RunFolder, plans: tuple[TrialPlan, ...], sources: Sources | None = None) -> None:
    with folder.taking():
        if sources is not None:
            write_atomically(folder.sources, sources.encoded())
        write_atomically(folder.plan, RunPlan(plans=plans).canonical())


def resume_folder(folder: RunFolder, plans: tuple[TrialPlan, ...], harness: HarnessStamp) -> JournalFile | None:
    """The journal of an earlier run of exactly these plans by exactly this harness; else UsageRefused, naming them.

    None where that run ended before its journal had a header.
    """
    if not folder.plan.is_file():
        raise UsageRefused("holds no run", where=f"--resume {folder.root}", mend="give the folder of a run")
    kept = RunPlan.read(folder.plan)
    before, now = kept.plans, plans
    if [plan.digest for plan in before] != [plan.digest for plan in now]:
        raise UsageRefused(
            f"not the same run: {'; '.join(differences(before, now))}",
            where=f"--resume {folder.root}",
            mend="give the flags of the first start, or start a new run",
        )
    try:
        found = read_journal(folder.journal)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(folder.journal)) from error
    if found is None:
        return None
    theirs = found.header.harness
    if (theirs.version, theirs.digest) != (harness.version, harness.digest):
        raise UsageRefused(
            f"not the same harness: it was {theirs.version} ({theirs.digest[:12]}),"
            f" this is {harness.version} ({harness.digest[:12]})",
            where=f"--resume {folder.root}",
            mend="use the harness that started it, or start a new run",
        )
    _refuse_strange_trials(found, plans, str(folder.journal))
    return found


def _refuse_strange_trials(found: JournalFile, plans: tuple[TrialPlan, ...], where: str) -> None:
    """Every line about a trial is about the one that the plans have under its number; else InputRefused."""
    planned = [(plan.digest, key) for plan in plans for key in trial_keys(plan)]
    for number, line in enumerate(found.lines, start=2):
        if not isinstance(line, journal.TrialPlace):
            continue
        if line.trial >= len(planned) or planned[line.trial] != (line.plan_digest, line.result.key):
            raise InputRefused(
                f"says trial {line.trial}, and is not about the trial that the plan has there",
                where=f"{where}:{number}: $.trial",
                mend="the journal was changed by hand: restore it, or start a new run",
            )


def differences(before: tuple[TrialPlan, ...], now: tuple[TrialPlan, ...]) -> list[str]:
    """`solver.name: reference, now noop`: every leaf of the plans that differs, the first ten."""
    if len(before) != len(now):
        names = [", ".join(plan.solver.name for plan in plans) for plans in (before, now)]
        return [f"solvers: {names[0]}, now {names[1]}"]
    found: list[str] = []
    for old, new in zip(before, now, strict=True):
        _differ(old.json_value(), new.json_value(), "", found)
    return found[:10]


def _differ(old: object, new: object, path: str, found: list[str]) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            _differ(old.get(key), new.get(key), f"{path}.{key}" if path else key, found)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            _differ(one, other, f"{path}[{index}]", found)
    elif old != new:
        found.append(f"{path}: {_short(old)}, now {_short(new)}")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
