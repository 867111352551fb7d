"""Everything that a receiver needs of some records, in one folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appliance.audit.documents import record_of
from appliance.audit.found import records_of
from appliance.audit.trust import bundle_path
from appliance.digests import sha256_hex, sha256_of_file
from appliance.errors import InputRefused, UsageRefused
from appliance.files import disk_of, fsync_folder, made_in, make_folder
from appliance.reading import open_regular, read_regular
from appliance.records.record import Record
from appliance.submissions.challenge import read_challenge
from appliance.submissions.named import blobs_named
from appliance.submissions.revealing import Revealed, blobs_to_go, refuse_unasked, revealed, suite_archive
from attest import statement
from attest.bundle import MAX_BUNDLE_BYTES, parse
from attest.canonical import MAX_BYTES
from attest.errors import Refused


@dataclass(frozen=True)
class Ask:
    records: tuple[Path, ...]
    """Records, or folders of them."""
    to: Path
    blobs: Path | None = None
    """None: `../blobs`, seen from each record."""
    verdicts: tuple[Path, ...] = ()
    challenges: tuple[Path, ...] = ()
    with_suite: bool | None = None
    """None: not said; refused where the suite's archive has answers."""


@dataclass(frozen=True)
class Packed:
    folder: Path
    records: tuple[str, ...]
    unsigned: tuple[str, ...]
    blobs: int
    missing: tuple[str, ...]
    """Digests that records name and that were not there."""
    challenges: tuple[str, ...]
    verdicts: tuple[str, ...]
    revealed: tuple[Revealed, ...]


@dataclass
class _Loaded:
    """A record and where its companions lie."""

    path: Path
    content: bytes
    record: Record
    blobs: Path | None
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        self.sha256 = sha256_hex(self.content)


def pack(ask: Ask) -> Packed:
    """Raises UsageRefused where `to` is taken, or answers would go out unasked, or a verdict is about none of the
    records; InputRefused for what is no record, and where the suite was asked for and is not there."""
    _refuse_taken(ask.to)
    loaded = [_loaded(path, ask.blobs, follow) for given in ask.records for path, follow in _records(given)]
    verdicts = [_verdict(path, loaded) for path in ask.verdicts]
    if ask.with_suite:
        _refuse_suiteless(loaded)
    shown = tuple(
        revealed(one.record, one.sha256, None if ask.with_suite is False else suite_archive(one.record, one.blobs))
        for one in loaded
    )
    if ask.with_suite is None:
        refuse_unasked(shown)
    make_folder(ask.to.parent)
    with disk_of(ask.to, "make room, or name another --to"):
        with made_in(ask.to.parent):
            draft = Path(tempfile.mkdtemp(prefix=f".{ask.to.name[:60]}.", dir=ask.to.parent))
        try:
            packed = _fill(draft, ask, loaded, shown, verdicts)
            draft.chmod(0o755)
            if ask.to.is_dir():
                ask.to.rmdir()
            draft.rename(ask.to)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
        fsync_folder(ask.to.parent)
    return packed


def _fill(
    draft: Path, ask: Ask, loaded: Sequence[_Loaded], shown: tuple[Revealed, ...], told: Sequence[bytes]
) -> Packed:
    with_suite = ask.with_suite is not False
    blobs: set[str] = set()
    missing: set[str] = set()
    unsigned: list[str] = []
    challenges = {sha256_hex(content): content for content in (read_challenge(path)[1] for path in ask.challenges)}
    for one in loaded:
        _write(draft / "records" / f"{one.sha256}.json", one.content)
        bundle = bundle_path(one.path)
        if bundle.exists():
            _write(draft / "records" / f"{one.sha256}.sigstore.json", _read(bundle, MAX_BUNDLE_BYTES))
        else:
            unsigned.append(one.sha256)
        sizes = {ref.sha256: ref.bytes for ref in blobs_named(one.record)}
        for sha256 in blobs_to_go(one.record, with_suite=with_suite):
            if sha256 in blobs:
                continue
            there = one.blobs is not None and _copied(one.blobs, draft / "blobs", sha256, sizes[sha256])
            (blobs if there else missing).add(sha256)
        if one.record.challenge and one.blobs:
            _keep_challenge(one.record.challenge, one.blobs, challenges)
    for sha256, content in challenges.items():
        _write(draft / "challenges" / f"{sha256}.json", content)
    verdicts = {sha256_hex(content): content for content in told}
    for sha256, content in verdicts.items():
        _write(draft / "verdicts" / f"{sha256}.sigstore.json", content)
    return Packed(
        folder=ask.to,
        records=tuple(one.sha256 for one in loaded),
        unsigned=tuple(unsigned),
        blobs=len(blobs),
        missing=tuple(sorted(missing - blobs)),
        challenges=tuple(sorted(challenges)),
        verdicts=tuple(sorted(verdicts)),
        revealed=shown,
    )


def _records(given: Path) -> Iterator[tuple[Path, bool]]:
    """Each with whether it may be a symbolic link: only what was named itself may."""
    found = records_of(given)
    for path in found.unrecorded:
        raise InputRefused("a bundle without its record", where=str(path), mend="restore the record, or name others")
    return ((path, not found.in_folder) for path in found.records)


def _loaded(path: Path, blobs: Path | None, follow: bool) -> _Loaded:
    content = _read(path, MAX_BYTES, follow=follow)
    beside = blobs or path.resolve().parent.parent / "blobs"
    return _Loaded(path, content, record_of(content, str(path)), beside if beside.is_dir() else None)


def _verdict(path: Path, loaded: Sequence[_Loaded]) -> bytes:
    """What a receiver would at least look at: whether its signature holds, his policy's roots say."""
    content = _read(path, MAX_BUNDLE_BYTES)
    mend = "the verdict.sigstore.json that `appliance reproduce --sign` wrote"
    try:
        stated = statement.parse(parse(content).payload)
        statement.check_predicate_type(stated, statement.VSA_TYPE)
        about = statement.subject_sha256(stated)
    except Refused as refused:
        raise InputRefused(f"no signed verdict: {refused}", where=f"--verdict {path}", mend=mend) from refused
    if about not in {one.sha256 for one in loaded}:
        raise UsageRefused(
            f"is about record {about[:12]}, which is not among these",
            where=f"--verdict {path}",
            mend="pack that record with it",
        )
    return content


def _refuse_suiteless(loaded: Sequence[_Loaded]) -> None:
    for one in loaded:
        archive = one.record.suite.archive
        if archive is None or suite_archive(one.record, one.blobs) is None:
            named = f"its archive is blob {archive.sha256}, and is not here" if archive else "it names no archive of it"
            raise InputRefused(
                f"its suite cannot go along: {named}",
                where=f"{one.path}: $.suite.archive",
                mend="--blobs DIR where it lies, or --without-suite",
            )


def _keep_challenge(sha256: str, blobs: Path, into: dict[str, bytes]) -> None:
    """The document that `run --challenge` kept among the blobs."""
    path = blobs / "sha256" / sha256
    if sha256 not in into and path.exists():
        into[sha256] = read_challenge(path)[1]


def _copied(blobs: Path, into: Path, sha256: str, size: int) -> bool:
    """False where it is not there. Raises InputRefused where it is not what its name says: nobody would take it."""
    path = blobs / "sha256" / sha256
    to = into / "sha256" / sha256
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        source = open_regular(path, follow=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
    with source, to.open("xb") as out:
        if os.fstat(source.fileno()).st_size != size:
            raise InputRefused(f"has not the {size} bytes that its record says", where=str(path))
        shutil.copyfileobj(source, out)
    if sha256_of_file(to) != sha256:
        raise InputRefused("is not what its name says", where=str(path), mend="restore it: its record names its digest")
    return True


def _refuse_taken(folder: Path) -> None:
    if os.path.lexists(folder) and not (folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir())):
        raise UsageRefused("something is there already", where=f"--to {folder}", mend="name another folder")


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _read(path: Path, most: int, *, follow: bool = True) -> bytes:
    try:
        return read_regular(path, most, follow=follow)
    except OSError as error:
        raise InputRefused(error.strerror or str(error), where=str(path)) from error
