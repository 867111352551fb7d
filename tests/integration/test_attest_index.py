"""The signed index: append-only for whoever remembers it, whole after a kill, one story for two writers at once."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attest import index as indexes
from attest import statement
from attest.errors import Refused
from attest.index import CHECKPOINT, LINES, Checkpoint, SignedIndex
from attest.signing import sign_statement
from attest.trust.local import LocalTrust, open_or_init

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trust(tmp_path_factory: pytest.TempPathFactory) -> LocalTrust:
    return open_or_init(tmp_path_factory.mktemp("home") / "trust")


def _open(folder: Path, trust: LocalTrust, remembered: Checkpoint | None = None) -> SignedIndex:
    return SignedIndex.open(folder, trust.root, trust.identity, trust.issuer, remembered=remembered)


def _lines(*numbers: int) -> list[dict[str, int]]:
    return [{"n": number} for number in numbers]


def _refused(folder: Path, trust: LocalTrust, remembered: Checkpoint | None = None) -> Refused:
    with pytest.raises(Refused) as refused:
        _open(folder, trust, remembered)
    return refused.value


def test_what_was_appended_is_read_back_in_order_under_one_signature(tmp_path: Path, trust: LocalTrust) -> None:
    """Row P1: the index grows, and each checkpoint names the one before it by size, root and bundle."""
    opened = _open(tmp_path, trust)
    assert (opened.entries, opened.checkpoint, opened.size) == ((), None, 0)
    first = opened.append(_lines(1), trust)
    before = opened.bundle_sha256
    second = opened.append(_lines(2, 3), trust)
    assert second.previous is not None
    assert (second.previous.size, second.previous.root, second.previous.bundle_sha256) == (1, first.root, before)
    again = _open(tmp_path, trust, second)
    assert list(again.entries) == _lines(1, 2, 3)
    assert again.checkpoint == second
    assert first.origin == second.origin
    assert (tmp_path / LINES).read_text() == '{"n":1}\n{"n":2}\n{"n":3}\n'


def test_appending_nothing_makes_an_index_once_and_changes_nothing_later(tmp_path: Path, trust: LocalTrust) -> None:
    """No checkpoint without news; but an index has its origin before its first entry."""
    opened = _open(tmp_path, trust)
    empty = opened.append([], trust)
    assert (empty.size, empty.previous, opened.checkpoint) == (0, None, empty)
    checkpoint = _open(tmp_path, trust, empty).append(_lines(1), trust)
    assert checkpoint.origin == empty.origin
    opened = _open(tmp_path, trust, checkpoint)
    bundle = (tmp_path / CHECKPOINT).read_bytes()
    assert opened.append([], trust) == checkpoint
    assert (tmp_path / CHECKPOINT).read_bytes() == bundle


def test_the_checkpoint_is_about_the_bytes_of_the_file(tmp_path: Path, trust: LocalTrust) -> None:
    """Any sigstore client can check index.jsonl by it: the subject is the file."""
    from sigstore.models import Bundle, TrustedRoot
    from sigstore.verify import Verifier, policy

    from appliance.digests import sha256_of_file

    _open(tmp_path, trust).append(_lines(1, 2), trust)
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(trust.root_path)))
    bundle = Bundle.from_json((tmp_path / CHECKPOINT).read_bytes())
    _, payload = verifier.verify_dsse(bundle, policy.Identity(identity=trust.identity, issuer=trust.issuer))
    assert json.loads(payload)["subject"][0]["digest"]["sha256"] == sha256_of_file(tmp_path / LINES)


# ------------------------------------------------------------------------------------------------ changed folders


@pytest.fixture
def three(tmp_path: Path, trust: LocalTrust) -> tuple[Path, Checkpoint]:
    """Three entries in two appends, and the copy of the folder after the first one in `old`."""
    folder = tmp_path / "index"
    opened = _open(folder, trust)
    opened.append(_lines(1), trust)
    shutil.copytree(folder, tmp_path / "old")
    return folder, opened.append(_lines(2, 3), trust)


_CHANGED: dict[str, Callable[[Path], Any]] = {
    "a line less": lambda f: (f / LINES).write_text('{"n":1}\n{"n":2}\n'),
    "half a line less": lambda f: (f / LINES).write_text('{"n":1}\n{"n":2}\n{"n":'),
    "no lines": lambda f: (f / LINES).unlink(),
    "a line changed": lambda f: (f / LINES).write_text('{"n":1}\n{"n":7}\n{"n":3}\n'),
    "two lines swapped": lambda f: (f / LINES).write_text('{"n":2}\n{"n":1}\n{"n":3}\n'),
    "the last line changed": lambda f: (f / LINES).write_text('{"n":1}\n{"n":2}\n{"n":4}\n'),
    "a space in a line": lambda f: (f / LINES).write_text('{"n":1}\n{"n": 2}\n{"n":3}\n'),
    "no checkpoint": lambda f: (f / CHECKPOINT).unlink(),
    "a folder for lines": lambda f: _instead(f / LINES, Path.mkdir),
    "a pipe for lines": lambda f: _instead(f / LINES, os.mkfifo),
}


def _instead(path: Path, made: Callable[[Path], Any]) -> None:
    path.unlink()
    made(path)


@pytest.mark.parametrize("name", list(_CHANGED))
def test_a_changed_index_is_refused_without_any_memory(
    three: tuple[Path, Checkpoint], trust: LocalTrust, name: str
) -> None:
    """Shrunk or rewritten against its own checkpoint: class `replay` (row P9), and an append refuses it too."""
    folder, _ = three
    opened = _open(folder, trust)
    _CHANGED[name](folder)
    assert _refused(folder, trust).reason == "replay"
    kept = (folder / CHECKPOINT).read_bytes() if (folder / CHECKPOINT).exists() else None
    with pytest.raises(Refused) as refused:
        opened.append(_lines(9), trust)
    assert refused.value.reason == "replay"
    assert ((folder / CHECKPOINT).read_bytes() if kept is not None else None) == kept


def test_an_older_index_is_genuine_until_somebody_remembers_the_newer(
    three: tuple[Path, Checkpoint], trust: LocalTrust
) -> None:
    """Rolled back: both signatures hold, and the remembered checkpoint alone tells (row P9)."""
    folder, newest = three
    old = folder.parent / "old"
    assert _open(old, trust).size == 1
    assert "shrunk" in _refused(old, trust, newest).message
    shutil.rmtree(folder)
    assert _refused(folder, trust, newest).reason == "replay"


def test_a_fork_is_refused_by_who_remembers_the_other_branch(three: tuple[Path, Checkpoint], trust: LocalTrust) -> None:
    """Two genuine continuations of one index; the same size, and a greater one (row P9)."""
    folder, newest = three
    old = folder.parent / "old"
    fork = _open(old, trust)
    fork.append(_lines(2, 4), trust)
    assert "forked" in _refused(old, trust, newest).message
    fork.append(_lines(5), trust)
    assert "forked" in _refused(old, trust, newest).message
    assert _open(folder, trust, newest).size == 3


def test_another_index_with_the_same_entries_is_a_fork(three: tuple[Path, Checkpoint], trust: LocalTrust) -> None:
    """Begun anew by its own owner: the origin is another, whatever the lines (row P9)."""
    folder, newest = three
    anew = folder.parent / "anew"
    _open(anew, trust).append(_lines(1, 2, 3), trust)
    assert (anew / LINES).read_bytes() == (folder / LINES).read_bytes()
    assert "another index" in _refused(anew, trust, newest).message


def test_a_checkpoint_that_forgets_the_one_before_is_refused(three: tuple[Path, Checkpoint], trust: LocalTrust) -> None:
    """Signed with the genuine key: its `previous` has another root than the lines have (row P9)."""
    folder, newest = three
    kind = statement.INDEX_CHECKPOINT_TYPE
    content = (folder / LINES).read_bytes()
    for change, reason in (
        ({"previous": {"size": 1, "root": "0" * 64, "bundleSha256": "0" * 64}}, "replay"),
        ({"previous": {"size": 3, "root": newest.root, "bundleSha256": "0" * 64}}, "replay"),
        ({"root": "0" * 64}, "replay"),
        ({"size": 2}, "replay"),
        ({"more": 1}, "statement"),
        ({"size": -1}, "statement"),
    ):
        value = {**newest.json_value(), **change}
        bundle = sign_statement(trust, statement.build(LINES, content, value, kind), kind)
        (folder / CHECKPOINT).write_bytes(bundle)
        assert _refused(folder, trust).reason == reason, change
    bundle = sign_statement(trust, statement.build(LINES, content + b"x", newest.json_value(), kind), kind)
    (folder / CHECKPOINT).write_bytes(bundle)
    assert _refused(folder, trust).reason == "subject"


def test_another_signer_s_index_is_refused(three: tuple[Path, Checkpoint], trust: LocalTrust, tmp_path: Path) -> None:
    """Whoever appends to it signs as the one whom it is held to, or nothing is written."""
    folder, _ = three
    other = open_or_init(tmp_path / "other")
    with pytest.raises(Refused):
        _open(folder, other)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(Refused):
        _open(folder, trust).append(_lines(9), other)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == kept


# --------------------------------------------------------------------------------------------- kills, crowds, disks


def test_lines_that_no_checkpoint_counts_are_nobodys_and_the_next_append_cuts_them(
    three: tuple[Path, Checkpoint], trust: LocalTrust
) -> None:
    """A writer that was killed between its lines and its checkpoint (row P10)."""
    folder, newest = three
    with (folder / LINES).open("a") as lines:
        lines.write('{"n":66}\n{"n":6')
    opened = _open(folder, trust, newest)
    assert list(opened.entries) == _lines(1, 2, 3)
    opened.append(_lines(4), trust)
    assert (folder / LINES).read_text() == '{"n":1}\n{"n":2}\n{"n":3}\n{"n":4}\n'
    assert list(_open(folder, trust, newest).entries) == _lines(1, 2, 3, 4)


_WRITER = """
import sys, os, signal
from pathlib import Path
from attest import index, signing
from attest.trust.local import LocalTrust
trust = LocalTrust(Path(sys.argv[2]))
opened = index.SignedIndex.open(Path(sys.argv[1]), trust.root, trust.identity, trust.issuer)
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(index, sys.argv[3], killed)
opened.append([{"n": 2}, {"n": 3}], trust)
"""


@pytest.mark.parametrize("at", ["sign_statement", "write_atomically", "verify_statement"])
def test_a_writer_killed_at_any_step_leaves_an_index_that_the_next_one_finishes(
    tmp_path: Path, trust: LocalTrust, at: str
) -> None:
    """kill -9: before signing, before the checkpoint, before its check; one state either way (row P10)."""
    folder = tmp_path / "index"
    before = _open(folder, trust).append(_lines(1), trust)
    words = [sys.executable, "-c", _WRITER, str(folder), str(trust.folder), at]
    ended = subprocess.run(words, check=False, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    assert ended.returncode == -signal.SIGKILL
    opened = _open(folder, trust, before)
    assert list(opened.entries) == _lines(1)
    opened.append(_lines(2, 3), trust)
    assert list(_open(folder, trust, before).entries) == _lines(1, 2, 3)


def _append_some(folder: Path, trust_folder: Path, first: int) -> None:
    trust = LocalTrust(trust_folder)
    for number in range(first, first + 5):
        _open(folder, trust).append(_lines(number), trust)


def test_writers_at_once_append_one_behind_the_other(tmp_path: Path, trust: LocalTrust) -> None:
    """Four processes, twenty entries, none lost, none twice (row P10)."""
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_append_some, args=(tmp_path / "index", trust.folder, 10 * at)) for at in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    found = [entry["n"] for entry in _open(tmp_path / "index", trust).entries]
    assert sorted(found) == sorted(10 * at + number for at in range(4) for number in range(5))
    for at in range(4):
        own = [number for number in found if number // 10 == at]
        assert own == sorted(own)


def test_a_full_disk_leaves_the_index_as_it_was(
    three: tuple[Path, Checkpoint], trust: LocalTrust, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint cannot be written: the error comes through, no line stays (row P10)."""
    folder, newest = three

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    opened = _open(folder, trust)
    kept = (folder / LINES).read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(indexes, "write_atomically", full)
        with pytest.raises(OSError, match="No space"):
            opened.append(_lines(4), trust)
    assert (folder / LINES).read_bytes() == kept
    assert _open(folder, trust, newest).append(_lines(4), trust).size == 4


@pytest.mark.parametrize("line", [["n"], {"n": "x" * indexes.MAX_LINE_BYTES}, "n"])
def test_an_entry_is_a_bounded_object(tmp_path: Path, trust: LocalTrust, line: Any) -> None:
    """Refused before anything is written."""
    with pytest.raises(ValueError, match="JSON object"):
        _open(tmp_path / "index", trust).append([line], trust)
    assert not (tmp_path / "index").exists()


def test_a_remembered_checkpoint_is_kept_and_read_back(three: tuple[Path, Checkpoint], tmp_path: Path) -> None:
    """And what is none is refused rather than forgotten (row P9)."""
    _, newest = three
    place = tmp_path / "seen/one.json"
    assert indexes.recall(place) is None
    indexes.remember(place, newest)
    assert indexes.recall(place) == newest
    for content in (b"", b"{}", b'{"origin": 1}', place.read_bytes() + b"\n", place.read_bytes()[:-2]):
        place.write_bytes(content)
        with pytest.raises(Refused) as refused:
            indexes.recall(place)
        assert refused.value.reason == "replay"


def test_an_older_checkpoint_never_takes_the_place_of_a_newer_one(
    three: tuple[Path, Checkpoint], tmp_path: Path
) -> None:
    """A reader who began before another ended: what the other saw stays (row P9). Of another index it is replaced."""
    _, newest = three
    older = newest.model_copy(update={"size": 1, "root": "b" * 64, "previous": None})
    place = tmp_path / "seen/one.json"
    for told in (newest, older):
        indexes.remember(place, told)
        assert indexes.recall(place) == newest
    other = older.model_copy(update={"origin": "c" * 64})
    indexes.remember(place, other)
    assert indexes.recall(place) == other
