"""A store that is not what it was, a policy or a root that is older than seen: an intake stops and writes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.audit.trust import open_or_init_local
from appliance.digests import sha256_hex
from attest.index import SignedIndex
from tests.submissions_bench import Receiver, Sender, files_of, genuine


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "sender")


@pytest.fixture
def receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sender: Sender
) -> Receiver:
    """His store holds two records."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    found = Receiver(tmp_path / "receiver", capsys)
    found.keeps(sender)
    found.intake(sender.submission(genuine(hour=1), to="first"), sender)
    shutil.copytree(found.store, tmp_path / "earlier")
    found.intake(sender.submission(genuine(hour=2), to="second"), sender)
    return found


def refused(receiver: Receiver, sender: Sender, says: str) -> None:
    """Status 7, reason `rollback`, and every file as it was."""
    folder = sender.submission(genuine(hour=3), to="third")
    before = files_of(receiver.store) if receiver.store.exists() else None
    said = receiver.intake(folder, sender, status=7)
    assert said["error"]["reason"] == "rollback"
    assert says in said["error"]["message"]
    assert (files_of(receiver.store) if receiver.store.exists() else None) == before


def _earlier_copy(store: Path) -> None:
    """Genuine in every part, and not the last one."""
    shutil.rmtree(store)
    shutil.copytree(store.parent.parent / "earlier", store)


def _a_line_less(store: Path) -> None:
    lines = (store / "index.jsonl").read_bytes().splitlines(keepends=True)
    (store / "index.jsonl").write_bytes(b"".join(lines[:-1]))


def _another_word(store: Path) -> None:
    path = store / "index.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"auditable"', b'"verified!"', 1))


def _lines_exchanged(store: Path) -> None:
    lines = (store / "index.jsonl").read_bytes().splitlines(keepends=True)
    (store / "index.jsonl").write_bytes(b"".join(reversed(lines)))


def _no_checkpoint(store: Path) -> None:
    (store / "checkpoint.sigstore.json").unlink()


def _an_earlier_checkpoint(store: Path) -> None:
    shutil.copy(store.parent.parent / "earlier/checkpoint.sigstore.json", store)


def _forked(store: Path) -> None:
    """As long as before, by the same key: the keeper's own second story."""
    _earlier_copy(store)
    keeper, _ = open_or_init_local()
    index = SignedIndex.open(store, keeper.root, keeper.identity, keeper.issuer)
    index.append([index.entries[0] | {"file": "records/other.json"}], keeper)


def _begun_anew(store: Path) -> None:
    shutil.rmtree(store)
    keeper, _ = open_or_init_local()
    SignedIndex.open(store, keeper.root, keeper.identity, keeper.issuer).append([], keeper)


def _deleted(store: Path) -> None:
    shutil.rmtree(store)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_earlier_copy, "shrunk"),
        (_a_line_less, "shrunk"),
        (_another_word, "rewritten"),
        (_lines_exchanged, "rewritten"),
        (_no_checkpoint, "no checkpoint"),
        (_an_earlier_checkpoint, "shrunk"),
        (_forked, "rewritten or forked"),
        (_begun_anew, "another index"),
        (_deleted, "is empty"),
    ],
)
def test_an_index_that_is_not_the_one_last_seen_stops_an_intake(
    sender: Sender, receiver: Receiver, change: Callable[[Path], None], says: str
) -> None:
    """Row P9: shrunk, rewritten, forked; the last checkpoint is remembered outside of the store."""
    change(receiver.store)
    refused(receiver, sender, says)


ACT = {
    "kind": "act",
    "act": "release",
    "reason": "why not",
    "statement": "0" * 64,
    "verdict": "0" * 64,
    "tier": "verified",
    "at": "2026-04-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"kind": "wish"}, "no line of a store"),
        (ACT | {"record": "0" * 64}, "an act over a record that was never decided"),
        (ACT | {"record": sha256_hex(genuine(hour=1).canonical())}, "an act over a record that was accepted"),
    ],
)
def test_a_line_that_no_store_writes_stops_an_intake(
    sender: Sender, receiver: Receiver, line: dict[str, str], says: str
) -> None:
    """Row P9: signed by the right key, and of no meaning."""
    keeper, _ = open_or_init_local()
    SignedIndex.open(receiver.store, keeper.root, keeper.identity, keeper.issuer).append([line], keeper)
    refused(receiver, sender, says)


def test_a_store_that_was_moved_is_remembered_by_its_origin(sender: Sender, receiver: Receiver) -> None:
    """Row P9: at another path an earlier copy is an earlier copy still."""
    moved = receiver.home / "moved"
    shutil.copytree(receiver.home.parent / "earlier", moved)
    shutil.rmtree(receiver.store)
    words = [word if word != str(receiver.store) else str(moved) for word in receiver.words("intake", moved, sender)]
    folder = sender.submission(genuine(hour=3), to="third")
    words[2] = str(folder)
    assert receiver.json(*words, status=7)["error"]["reason"] == "rollback"


def test_an_older_policy_stops_an_intake(sender: Sender, receiver: Receiver) -> None:
    """Row P9: of a lower version; and of the same version with other bytes."""
    receiver.keeps(sender, version=3)
    receiver.intake(sender.submission(genuine(hour=7), to="newer"), sender)
    receiver.keeps(sender, version=2)
    refused(receiver, sender, "version 3 was seen here")
    receiver.keeps(sender, version=3, more="[completeness]\ncomplete = true\n")
    refused(receiver, sender, "raise its version")
    receiver.keeps(sender, version=1, name="another-board")
    receiver.intake(sender.submission(genuine(hour=8), to="another"), sender)


def test_an_older_trusted_root_stops_an_intake(sender: Sender, receiver: Receiver, tmp_path: Path) -> None:
    """Row P9: a name that stood for one root, then for another, never stands for the first again."""
    newer = Sender(tmp_path / "newer")
    known = Path(receiver.home / "config/bench-appliance/roots.toml")

    def known_as_board(one: Sender) -> None:
        entry = {"name": "board", "path": one.trust.root_path, "sha256": one.trust.root.sha256, "assurance": "local"}
        local = known.read_text().split('[[root]]\nname = "board"')[0]
        lines = "\n".join(f'{key} = "{value}"' for key, value in entry.items())
        known.write_text(f"{local.rstrip()}\n\n[[root]]\n{lines}\n")

    def taken(one: Sender, version: int, hour: int, status: int = 0) -> Any:
        receiver.keeps(one, version=version)
        known_as_board(one)
        return receiver.intake(one.submission(genuine(hour=hour), to=f"v{version}"), status=status)

    taken(sender, 2, 10)
    taken(newer, 3, 11)
    receiver.keeps(sender, version=4)
    known_as_board(sender)
    refused(receiver, sender, "root 'board'")


def test_a_person_cannot_act_on_a_store_that_was_rolled_back(sender: Sender, receiver: Receiver) -> None:
    """Row P9: neither intake, nor acts, nor a look."""
    _earlier_copy(receiver.store)
    digest = sha256_hex(genuine(hour=1).canonical())
    for words in (
        ("submission", "show", str(receiver.store)),
        ("submission", "release", str(receiver.store), digest, "--reason", "why"),
    ):
        assert receiver.json(*words, status=7)["error"]["reason"] == "rollback"
