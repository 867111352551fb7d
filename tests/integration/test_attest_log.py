"""The local log and its folder under killed, concurrent and dishonest hands."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attest import Refused, verify
from attest.local.merkle import leaf_hash
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, init, open_or_init
from tests.attest_forge import RECORD, claims, tree_hash

_ROOT = Path(__file__).resolve().parents[2]
_SIGN = """
import sys, pathlib, time
from attest.signing import sign_record
from attest.trust.local import open_or_init
from tests.attest_forge import RECORD, claims
folder, out, count = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
import attest.library, attest.local.instance
out.with_name(f"{out.name}.ready").touch()
while not out.with_name("go").exists():
    time.sleep(0.001)
trust = open_or_init(folder)
for i in range(count):
    draft = out.with_name(f".{out.name}-{i}")
    draft.write_bytes(sign_record(trust, RECORD, claims()))
    draft.rename(out.with_name(f"{out.name}-{i}.json"))
"""

_APPEND = """
import sys, pathlib, time
from attest.trust.local import LocalTrust
trust, go = LocalTrust(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2])
trust.identity
go.with_name(f"{sys.argv[3]}.ready").touch()
while not go.exists():
    pass
for i in range(200):
    print(trust.log.append(b'{"by":%s,"number":%d}' % (sys.argv[3].encode(), i)).index)
"""


def signer(folder: Path, out: Path, count: int) -> subprocess.Popen[bytes]:
    """A process that signs `count` times, once there is a file `go`, and keeps every bundle as `<out>-N.json`."""
    return subprocess.Popen([sys.executable, "-c", _SIGN, str(folder), str(out), str(count)], cwd=_ROOT)


def sign_together(folder: Path, bundles: Path, count: int) -> None:
    """Four processes that begin at the same moment, with everything imported."""
    signers = [signer(folder, bundles / f"s{n}", count) for n in range(4)]
    while len(list(bundles.glob("*.ready"))) < 4:
        assert all(each.poll() is None for each in signers)
        time.sleep(0.01)
    (bundles / "go").touch()
    assert [each.wait() for each in signers] == [0] * 4


def indexes(trust: LocalTrust, bundles: Path) -> list[int]:
    """The log index of every bundle in a folder, each of which must verify."""
    found = []
    for path in bundles.glob("*.json"):
        report = verify(RECORD, path.read_bytes(), trust.root, trust.identity, ISSUER)
        assert report.log_index is not None
        found.append(report.log_index)
    return sorted(found)


def entries(trust: LocalTrust) -> bytes:
    return (trust.folder / "log/entries.jsonl").read_bytes()


@pytest.fixture
def trust(tmp_path: Path) -> LocalTrust:
    return open_or_init(tmp_path / "trust/local")


@pytest.fixture
def bundles(tmp_path: Path) -> Path:
    folder = tmp_path / "bundles"
    folder.mkdir()
    return folder


def test_four_processes_signing_at_once_share_one_consistent_log(trust: LocalTrust, bundles: Path) -> None:
    """Every bundle verifies, every entry has an index of its own, and the tree is that of the entries (attest 3)."""
    sign_together(trust.folder, bundles, 25)
    assert indexes(trust, bundles) == list(range(100))
    lines = entries(trust).splitlines()
    assert trust.log.audit().frontier.root == tree_hash([leaf_hash(line) for line in lines])


def test_no_entry_is_lost_where_four_processes_do_nothing_but_append(trust: LocalTrust, bundles: Path) -> None:
    """The lock, without the work of signing between two entries: 800 entries, each with an index of its own."""
    appenders = [
        subprocess.Popen(
            [sys.executable, "-c", _APPEND, str(trust.folder), str(bundles / "go"), str(n)],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
        )
        for n in range(4)
    ]
    while len(list(bundles.glob("*.ready"))) < 4:
        time.sleep(0.01)
    (bundles / "go").touch()
    told = [int(line) for each in appenders for line in each.communicate()[0].splitlines()]
    assert sorted(told) == list(range(800))
    assert len(set(entries(trust).splitlines())) == 800
    assert trust.log.audit().size == 800


def test_a_signer_killed_at_any_moment_leaves_a_log_that_goes_on(trust: LocalTrust, bundles: Path) -> None:
    """kill -9 in the middle, again and again: no bundle that was kept is lost, and the next one follows (attest 3)."""
    drawn = random.Random(3)
    (bundles / "go").touch()
    for attempt in range(6):
        killed = signer(trust.folder, bundles / f"k{attempt}", 100_000)
        while not any(bundles.glob(f"k{attempt}-*.json")):
            time.sleep(0.01)
        time.sleep(drawn.random() / 10)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    kept = indexes(trust, bundles)
    assert len(set(kept)) == len(kept) >= 6
    after = verify(RECORD, sign_record(trust, RECORD, claims()), trust.root, trust.identity, ISSUER)
    assert after.log_index is not None
    assert after.log_index > kept[-1]
    assert trust.log.audit().size == after.log_index + 1 == len(entries(trust).splitlines())


def test_half_a_line_is_cut_off_and_a_whole_one_is_kept(trust: LocalTrust) -> None:
    """Killed while an entry was written, or before the head that counts it: the tree is that of the whole lines."""
    sign_record(trust, RECORD, claims())
    path = trust.folder / "log/entries.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kept":1}\n{"half":' + b"1" * 20_000)  # longer than the entry that will follow
    report = verify(RECORD, sign_record(trust, RECORD, claims()), trust.root, trust.identity, ISSUER)
    assert report.log_index == 2
    lines = path.read_bytes().splitlines()
    assert path.read_bytes().startswith(whole + b'{"kept":1}\n{"apiVersion"')
    assert trust.log.audit().frontier.root == tree_hash([leaf_hash(line) for line in lines])


def test_a_log_that_was_shortened_or_changed_signs_nothing_more(trust: LocalTrust) -> None:
    """Entries cut off or rewritten under a signed head are found, by the next signature or by the audit (V22)."""
    for _ in range(3):
        sign_record(trust, RECORD, claims())
    path = trust.folder / "log/entries.jsonl"
    whole = path.read_bytes()
    for changed in (whole[:-1], whole[: whole.index(b"\n") + 1], b""):
        path.write_bytes(changed)
        with pytest.raises(Refused) as caught:
            sign_record(trust, RECORD, claims())
        assert caught.value.reason == "replay"
    path.write_bytes(whole.replace(b"0.0.2", b"0.0.3", 1))
    with pytest.raises(Refused) as caught:
        trust.log.audit()
    assert caught.value.reason == "replay"
    path.write_bytes(whole)
    assert trust.log.audit().size == 3


@pytest.mark.parametrize("head", [b"", b"{}", b"[]", b'{"bytes":0,"checkpoint":"","frontier":[],"size":1}', None])
def test_a_head_that_cannot_be_read_signs_nothing(trust: LocalTrust, head: bytes | None) -> None:
    """A lost or odd head is never taken for an empty log."""
    sign_record(trust, RECORD, claims())
    path = trust.folder / "log/head.json"
    path.unlink()
    if head is not None:
        path.write_bytes(head)
    with pytest.raises(Refused) as caught:
        sign_record(trust, RECORD, claims())
    assert caught.value.reason == "replay"


def test_keys_and_folder_are_private(trust: LocalTrust) -> None:
    """Folder 0700, keys 0600; one that others may read is refused with its mend (attest 3; formats 8)."""
    assert trust.folder.stat().st_mode & 0o777 == 0o700
    keys = sorted((trust.folder / "keys").iterdir())
    assert len(keys) == 6
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    keys[0].chmod(0o640)
    with pytest.raises(Refused) as caught:
        sign_record(LocalTrust(trust.folder), RECORD, claims())
    assert (caught.value.reason, caught.value.where) == ("trust_root", str(keys[0]))
    keys[0].chmod(0o600)
    trust.folder.chmod(0o755)
    with pytest.raises(Refused) as caught:
        LocalTrust(trust.folder)
    assert caught.value.reason == "trust_root"


def test_an_instance_is_made_once_whoever_tries(tmp_path: Path) -> None:
    """Four first signatures at once: one root, one log, and no draft left behind."""
    folder = tmp_path / "trust/local"
    out = tmp_path / "bundles"
    out.mkdir()
    sign_together(folder, out, 1)
    assert indexes(LocalTrust(folder), out) == [0, 1, 2, 3]
    assert sorted(path.name for path in folder.parent.iterdir()) == [".local.lock", "local"]
    assert not init(folder)


def test_a_killed_init_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """A half-made draft is removed by the next one, and was never opened."""
    folder = tmp_path / "trust/local"
    draft = folder.parent / ".local.draft.xyz"
    (draft / "keys").mkdir(parents=True)
    with pytest.raises(Refused):
        LocalTrust(folder)
    open_or_init(folder)
    assert not draft.exists()


def test_a_full_disk_while_signing_is_one_refusal(trust: LocalTrust, monkeypatch: pytest.MonkeyPatch) -> None:
    """No space at the outermost edge, fsync: a refusal that names the place, and the log goes on afterwards."""
    sign_record(trust, RECORD, claims())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as edge, pytest.raises(Refused) as caught:
        edge.setattr(os, "fsync", full)
        sign_record(trust, RECORD, claims())
    assert caught.value.reason == "trust_root"
    assert "No space" in caught.value.message
    sign_record(trust, RECORD, claims())
    assert trust.log.audit().size == len(entries(trust).splitlines())


def test_the_entries_are_what_was_logged_and_nothing_of_the_record(trust: LocalTrust) -> None:
    """A line holds a digest, a signature and a certificate: a record under embargo stays unknown (attest 2)."""
    sign_record(trust, RECORD, claims())
    (line,) = entries(trust).splitlines()
    body = json.loads(line)
    assert (body["kind"], body["apiVersion"]) == ("hashedrekord", "0.0.2")
    assert set(body["spec"]["hashedRekordV002"]) == {"data", "signature"}
