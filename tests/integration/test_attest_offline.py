"""`appliance verify` without a network, in a home that holds somebody else's cache: neither is asked or used."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sigstore._internal.tuf import DEFAULT_TUF_URL, STAGING_TUF_URL, _get_dirs

from appliance.audit.trust import bundle_path, claims_of
from attest.signing import sign_record
from attest.trust.local import ISSUER, LocalTrust, open_or_init
from tests.policy_builder import believable, tables, toml

_ROOT = Path(__file__).resolve().parents[2]
_WATCHED = """
import json, os, sys
home, seen = os.environ["HOME"], []
_FILES = {"open", "os.mkdir", "os.rename", "os.link", "os.symlink", "os.listdir", "os.scandir", "os.utime", "os.remove"}
_NET = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}
def hook(event, words):
    if event in _NET:
        seen.append([event, repr(words)])
    elif event in _FILES and words and isinstance(words[0], (str, bytes)) and os.fsdecode(words[0]).startswith(home):
        seen.append([event, os.fsdecode(words[0])])
sys.addaudithook(hook)
from appliance.cli.main import run
status = run(sys.argv[2:])
sys.stdout.flush()
with open(sys.argv[1], "w") as file:
    json.dump({"status": status, "seen": seen}, file)
"""


def _poisoned(home: Path, root: bytes) -> None:
    """Whatever sigstore-python keeps of a TUF repository, with the forger's root in its place."""
    for url in (DEFAULT_TUF_URL, STAGING_TUF_URL):
        for folder in _get_dirs(url):
            inner = home / folder.relative_to(Path.home())
            (inner / "targets").mkdir(parents=True)
            for place in (inner / "trusted_root.json", inner / "targets/trusted_root.json", inner / "root.json"):
                place.write_bytes(root)


def _verified(words: Sequence[str | Path], home: Path, told: Path) -> tuple[int, Any]:
    """Status and document, in a network namespace of its own where that is allowed; nothing in HOME was touched."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    environment |= {"HOME": str(home), "PYTHONPATH": str(_ROOT), "PYTHONNOUSERSITE": "1"}
    alone = ["unshare", "--net", "--"] if os.getuid() == 0 and shutil.which("unshare") else []
    ended = subprocess.run(
        [*alone, sys.executable, "-c", _WATCHED, str(told), "verify", *map(str, words), "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    found = json.loads(told.read_text())
    own = str(home / ".config/bench-appliance/roots.toml")
    assert [one for one in found["seen"] if one != ["open", own]] == []
    return found["status"], json.loads(ended.stdout)


def _files(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def homes(tmp_path: Path) -> tuple[LocalTrust, LocalTrust, Path]:
    """Somebody's trust, a forger's, and a home that nobody may write, in which the forger's root is cached."""
    home = tmp_path / "home"
    home.mkdir()
    trust, forger = open_or_init(tmp_path / "trust"), open_or_init(tmp_path / "forger")
    _poisoned(home, forger.root_path.read_bytes())
    for folder in (home, *(path for path in home.rglob("*") if path.is_dir())):
        folder.chmod(0o555)
    return trust, forger, home


def test_no_network_is_asked_and_no_cache_is_trusted_or_written(
    homes: tuple[LocalTrust, LocalTrust, Path], tmp_path: Path
) -> None:
    """A genuine record verifies by its pinned root; one that the forger signed does not, although every cache holds
    his root; with the trust options and with a policy alike (row V14, threat 2)."""
    trust, forger, home = homes
    made = believable(version="1.0", commit="1" * 40)
    made.store(tmp_path / "run/blobs")
    record = tmp_path / "run/records/a.json"
    record.parent.mkdir(parents=True)
    record.write_bytes(made.record.canonical())
    policy = tmp_path / "policy.toml"
    policy.write_text(toml(tables(trust, stamps={"harness": "any"})))
    root = ("--trusted-root", trust.root_path)
    pinned = (*root, "--root-sha256", trust.root.sha256, "--issuer", ISSUER, "--identity")
    before = _files(home)
    for signer, status in ((trust, 0), (forger, 7)):
        bundle_path(record).write_bytes(sign_record(signer, record.read_bytes(), claims_of(made.record)))
        for words in ((record, *pinned, signer.identity), (record.parent.parent, "--policy", policy, *root)):
            ended, found = _verified(words, home, tmp_path / "told.json")
            assert (ended, found["verified"]) == (status, status == 0)
    assert _files(home) == before


def test_without_a_root_nothing_is_looked_for_in_a_cache(
    homes: tuple[LocalTrust, LocalTrust, Path], tmp_path: Path
) -> None:
    """No root named is a refusal (usage), not a default (rows V1, V14)."""
    _, _, home = homes
    (tmp_path / "a.json").write_text("{}")
    ended, found = _verified([tmp_path / "a.json"], home, tmp_path / "told.json")
    assert ended == 2
    assert found["error"]["reason"] == "usage"
