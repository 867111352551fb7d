"""A receiver's store on disk: what was accepted, what waits, every verdict, and the signed index that counts.

```
STORE/index.jsonl  checkpoint.sigstore.json      what was decided: a state is a line, files follow it
STORE/records/SHA.json  SHA.sigstore.json        accepted        STORE/quarantine/   the same, of what waits
STORE/blobs/sha256/HEX                           of both         STORE/verdicts/SHA.sigstore.json
STORE/challenges/SHA.json  SHA.sigstore.json     issued here     STORE/pending/      submissions under way
```
Files are put in place before the line that speaks of them, and removed after it. Killed in between, what no line
speaks of is removed by whoever opens the store next; blobs alone stay, for the second try.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.bundle import state_home
from appliance.digests import sha256_hex
from appliance.errors import AttestationRefused, InputRefused, UsageRefused
from appliance.files import disk_of, fsync_folder, write_atomically
from appliance.reading import open_regular, read_regular
from appliance.submissions.challenge import Challenge, challenge_of, read_challenge
from appliance.submissions.own_folder import refuse_foreign
from appliance.submissions.state import ActLine, DecisionLine, StoreState, parse_lines, state_of
from attest import canonical, statement
from attest.bundle import MAX_BUNDLE_BYTES
from attest.errors import Refused
from attest.index import CHECKPOINT, LINES, LOCK, MAX_LINE_BYTES, Checkpoint, SignedIndex, recall, remember
from attest.verification import verify_statement

if TYPE_CHECKING:
    from attest.roots import PinnedRoot
    from attest.trust import TrustMode

_OURS: Final = re.compile(r"([0-9a-f]{64})(\.sigstore)?\.json")
_INCOMING: Final = ".incoming-"
_FOLDERS: Final = ("records", "quarantine", "verdicts", "challenges", "pending", "blobs/sha256")
_FOLDER_OF: Final = {"records": "accepted", "quarantine": "quarantined"}
_NO_ROLLBACK: Final = frozenset({"usage", "internal", "trust_root"})
_MEND: Final = "find out who changed it, and restore it from a copy"

HeldTo = tuple["PinnedRoot", str, str]
"""Root, name and issuer that the store's own statements are held to."""


class Store:
    """As it was when it was opened, or last appended to. Raises AttestationRefused (rollback) where it is not what it
    was, before anything is written, and UsageRefused for what is no folder."""

    def __init__(self, root: Path, held_to: HeldTo):
        if os.path.lexists(root) and not root.is_dir():
            raise UsageRefused("a store is a folder, and this is none", where=str(root), mend="name another place")
        self.root = root
        self._held_to = held_to
        self._load()

    def _load(self) -> None:
        with rollbacks_told(self.root):
            by_path = recall(_memory(os.fsencode(self.root.resolve())))
            index = SignedIndex.open(self.root, *self._held_to, remembered=by_path)
            if index.checkpoint is not None:
                by_origin = recall(_memory(index.checkpoint.origin.encode()))
                if by_origin is not None and (by_path is None or by_origin.size > by_path.size):
                    index = SignedIndex.open(self.root, *self._held_to, remembered=by_origin)
            where = str(self.root / "index.jsonl")
            self.lines = parse_lines(index.entries, where)
            self.state: StoreState = state_of(self.lines, where)
        self.index = index

    @property
    def checkpoint(self) -> Checkpoint | None:
        """None where there is no store yet."""
        return self.index.checkpoint

    @property
    def origin(self) -> str:
        """Its name: what challenges and statements are for. Raises UsageRefused where there is no store yet."""
        if self.index.checkpoint is None:
            raise UsageRefused("holds no store", where=str(self.root), mend="appliance challenge new, or an intake")
        return self.index.checkpoint.origin

    # ------------------------------------------------------------------------------------------------------ writing

    @contextmanager
    def alone(self, signer: TrustMode) -> Iterator[None]:
        """Whoever comes second waits. Within it the store is what is on the disk, without leavings; a new one is made.

        Raises HostRefused where the disk takes no more, UsageRefused where something else lies there.
        """
        self._refuse_other()
        refuse_foreign(self.root, _FOLDERS, (LINES, CHECKPOINT, LOCK))
        with disk_of(self.root, "make room, then the same once more"), _locked(self.root):
            if self._moved_on():
                self._load()
            if self.index.checkpoint is None:
                self._refuse_other()
                self.append((), signer)
            self._tidy()
            yield

    def append(self, lines: Sequence[DecisionLine | ActLine], signer: TrustMode) -> None:
        """All of them count when it returns, or none does. Called within `alone`."""
        with rollbacks_told(self.root):
            checkpoint = self.index.append([line.json_value() for line in lines], signer)
            for name in (os.fsencode(self.root.resolve()), checkpoint.origin.encode()):
                remember(_memory(name), checkpoint)
        self.lines = (*self.lines, *lines)
        self.state = state_of(self.lines)

    def incoming(self) -> Path:
        """A new folder for what was sent, on the same disk; gone with the next intake at the latest."""
        folder = self.root / f"{_INCOMING}{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700)
        return folder

    def keep_blobs(self, incoming: Path, digests: Iterable[str]) -> None:
        """Those whose bytes were checked where they lie."""
        to = self.root / "blobs" / "sha256"
        to.mkdir(parents=True, exist_ok=True)
        for digest in digests:
            path = incoming / "blobs" / "sha256" / digest
            if (to / digest).exists() or not path.exists():
                continue
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
            path.chmod(0o644)
            path.rename(to / digest)
        fsync_folder(to)

    def keep_record(self, content: bytes, bundle: bytes | None, *, quarantined: bool) -> None:
        folder = self.root / ("quarantine" if quarantined else "records")
        sha256 = sha256_hex(content)
        if bundle is not None:
            write_atomically(folder / f"{sha256}.sigstore.json", bundle)
        write_atomically(folder / f"{sha256}.json", content)

    def keep_verdict(self, bundle: bytes) -> str:
        sha256 = sha256_hex(bundle)
        write_atomically(self.root / "verdicts" / f"{sha256}.sigstore.json", bundle)
        return sha256

    def keep_challenge(self, content: bytes, bundle: bytes) -> None:
        """The signature first: a document that lies there without one was not issued."""
        sha256 = sha256_hex(content)
        write_atomically(self.root / "challenges" / f"{sha256}.sigstore.json", bundle)
        write_atomically(self.root / "challenges" / f"{sha256}.json", content)

    def pending(self, submission: str) -> Path:
        """There while a submission's intake is under way."""
        return self.root / "pending" / f"{submission}.json"

    def drop_elsewhere(self, record: str) -> None:
        """From the folder that it does not stand in any longer; both where it was excluded."""
        for folder, status in _FOLDER_OF.items():
            if self.state.records[record].status != status:
                self.drop(folder, record)

    def drop(self, folder: str, record: str) -> None:
        for end in (".json", ".sigstore.json"):
            (self.root / folder / f"{record}{end}").unlink(missing_ok=True)

    # ------------------------------------------------------------------------------------------------------ reading

    def issued(self, sha256: str) -> Challenge | None:
        """The challenge that this store signed under this digest."""
        path = self.root / "challenges" / f"{sha256}.json"
        try:
            challenge, content = read_challenge(path)
            bundle = read_regular(path.with_suffix(".sigstore.json"), MAX_BUNDLE_BYTES)
            signed = verify_statement(bundle, *self._held_to, statement.CHALLENGE_TYPE)
            statement.check_subject(signed.statement, content)
        except (InputRefused, OSError, Refused):
            return None
        return challenge if sha256_hex(content) == sha256 and challenge.store == self.origin else None

    def record_bytes(self, record: str, folder: str) -> tuple[bytes, bytes | None]:
        """Record and bundle as they lie there. Raises InputRefused where they are not what their name says."""
        from attest.canonical import MAX_BYTES

        path = self.root / folder / f"{record}.json"
        try:
            content = read_regular(path, MAX_BYTES)
            beside = path.with_suffix(".sigstore.json")
            bundle = read_regular(beside, MAX_BUNDLE_BYTES) if beside.exists() else None
        except OSError as error:
            raise InputRefused(error.strerror or str(error), where=str(path)) from error
        if sha256_hex(content) != record:
            raise InputRefused("is not what its name says", where=str(path))
        return content, bundle

    # ----------------------------------------------------------------------------------------------------- inside

    def _moved_on(self) -> bool:
        """Whether somebody appended since this store was read: each append signs anew."""
        try:
            content = read_regular(self.root / CHECKPOINT, MAX_BUNDLE_BYTES)
        except OSError:
            return True
        return sha256_hex(content) != self.index.bundle_sha256

    def _refuse_other(self) -> None:
        if self.index.checkpoint is not None or not os.path.lexists(self.root):
            return
        if not self.root.is_dir() or any(not path.name.startswith(".") for path in self.root.iterdir()):
            raise UsageRefused("something else lies there", where=str(self.root), mend="name another folder")

    def _tidy(self) -> None:
        """What a killed intake left: nothing of it stands in the index."""
        for path in self.root.glob(f"{_INCOMING}*"):
            shutil.rmtree(path, ignore_errors=True)
        for name in _FOLDERS:
            for path in (self.root / name).glob(".*"):
                with suppress(OSError):
                    path.unlink()
        for folder, status in _FOLDER_OF.items():
            standing = {record for record, found in self.state.records.items() if found.status == status}
            self._remove_others(folder, standing)
        self._remove_others("verdicts", self.state.kept_in_verdicts)
        challenges = {path.stem for path in (self.root / "challenges").glob("*.json")}
        self._remove_others("challenges", challenges)

    def _remove_others(self, folder: str, named: Iterable[str]) -> None:
        kept = frozenset(named)
        for path in (self.root / folder).glob("*.json"):
            found = _OURS.fullmatch(path.name)
            if found and found[1] not in kept:
                path.unlink(missing_ok=True)


def is_store(folder: Path) -> bool:
    """Whether the index there says that it is a receiver's; nothing of it is believed yet."""
    try:
        with open_regular(folder / LINES, follow=False) as stream:
            line = stream.readline(MAX_LINE_BYTES)
        kind = canonical.loads(line)
    except (OSError, canonical.NotCanonical):
        return False
    return isinstance(kind, dict) and kind.get("kind") in {"decision", "act"}


def shown_challenge(folder: Path, sha256: str) -> Challenge | None:
    """The document that came along with a submission, or lies among the blobs of a run. Whose it is, nobody says."""
    for path in (folder / "challenges" / f"{sha256}.json", folder / "blobs" / "sha256" / sha256):
        try:
            content = read_challenge(path)[1]
            if sha256_hex(content) == sha256:
                return challenge_of(content, str(path))
        except InputRefused:
            continue
    return None


@contextmanager
def rollbacks_told(folder: Path) -> Iterator[None]:
    """An index that does not hold is a rollback, whichever of its parts was tampered with (row P9)."""
    try:
        yield
    except Refused as refused:
        from appliance.audit.trust import translated

        if refused.reason in _NO_ROLLBACK:
            raise translated(refused) from refused
        raise rollback(refused.message, refused.where or str(folder / CHECKPOINT), refused.mend) from refused


def rollback(words: str, where: str | None, mend: str | None = None) -> AttestationRefused:
    """`mend`: what the refusal itself knows; most often it is a folder that somebody changed."""
    return AttestationRefused(words, where=where, mend=mend or _MEND, reason="rollback")


def _memory(name: bytes) -> Path:
    """Outside of the store, or it shares its fate: the last checkpoint of the store at a path, or of an origin."""
    return state_home() / "stores" / f"{sha256_hex(name)}.json"


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """On the folder itself: the lock goes with the process that holds it, however that ends."""
    root.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
