"""From a challenge to a verdict with a real run: a receiver asks, a sender runs, packs, looks, sends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.digests import sha256_hex
from appliance.records.record import Record
from appliance.tasks.reader import read_suite
from tests.trials_suites import write_suite

pytestmark = pytest.mark.docker
_ROOT = Path(__file__).resolve().parents[2]


class Person:
    """A folder and a home of one's own."""

    def __init__(self, home: Path):
        self.home = home
        home.mkdir()

    def __call__(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "XDG_DATA_HOME": str(self.home / "share"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "PYTHONPATH": str(_ROOT),
        }
        ended = subprocess.run(
            [sys.executable, "-m", "appliance.cli.main", *words],
            cwd=self.home,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        assert "Traceback" not in ended.stderr
        return ended

    def json(self, *words: str, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status).stdout)


@pytest.fixture
def sender(tmp_path: Path) -> Person:
    person = Person(tmp_path / "sender")
    write_suite(person.home / "tasks/small", ("a", "b"))
    return person


@pytest.fixture
def receiver(tmp_path: Path, sender: Person) -> Person:
    """He has the suite, the sender's root, and a policy that takes the sender's records of it."""
    person = Person(tmp_path / "receiver")
    write_suite(person.home / "tasks/small", ("a", "b"))
    trust = sender.json("trust", "init")
    (person.home / "root.json").write_bytes(Path(trust["root"]).read_bytes())
    digest = read_suite(person.home / "tasks/small").digest
    (person.home / "policy.toml").write_text(f"""
schema = "policy-v1"
name = "example"
version = 1

[[signers]]
root_sha256 = "{trust["rootSha256"]}"
identity = "{trust["identity"]}"
issuer = "{trust["issuer"]}"

[[suites]]
name = "small"
digest = "{digest}"
network = "none"
any_image = true

[blobs]
required = ["journal", "suite"]

[freshness]
challenge = "required"

[host]
fitness = "any"

[stamps]
harness = "any"
""")
    return person


@pytest.fixture
def challenge(receiver: Person, sender: Person) -> Path:
    """Made by the one, copied to the other."""
    words = ("--suite", "small", "--policy", "policy.toml", "--into", "store", "--to", "challenge.json")
    receiver("challenge", "new", *words)
    (sender.home / "challenge.json").write_bytes((receiver.home / "challenge.json").read_bytes())
    return sender.home / "challenge.json"


RUN = ("run", "--suite", "small", "--version", "1", "--commit", "1" * 40)


def test_a_run_that_meets_a_challenge_is_accepted_once(sender: Person, receiver: Person, challenge: Path) -> None:
    """Rows P1, P4, P5: challenge new, run --challenge, pack, check, intake; its document goes all the way."""
    sender(*RUN, "--solver", "reference,noop", "--challenge", "challenge.json", "--out", "r")
    document = challenge.read_bytes()
    digest = sha256_hex(document)
    for name in ("reference", "noop"):
        record = Record.read(sender.home / f"r/records/{name}.json")
        assert record.challenge == record.plan.challenge == digest
    assert (sender.home / f"r/blobs/sha256/{digest}").read_bytes() == document
    records = [f"r/records/{name}.json" for name in ("reference", "noop")]
    packed = sender.json("submission", "pack", *records, "--to", "sent", "--with-suite")
    assert packed["challenges"] == [digest]
    (sender.home / "policy.toml").write_bytes((receiver.home / "policy.toml").read_bytes())
    assert sender.json("submission", "check", "sent", "--policy", "policy.toml")["accepted"] == 2
    assert sender.json("verify", "sent", "--policy", "policy.toml", "--challenge", "challenge.json")["verified"]
    sent = str(sender.home / "sent")
    words = ("submission", "intake", sent, "--into", "store", "--policy", "policy.toml", "--trusted-root", "root.json")
    taken = receiver.json(*words)
    assert [one["tier"] for one in taken["records"]] == ["auditable", "auditable"]
    assert {one["challenge"] for one in taken["records"]} == {digest}
    again = receiver.json(*words, status=7)
    assert [reason["word"] for one in again["records"] for reason in one["reasons"]] == ["replayed", "replayed"]
    assert [one["status"] for one in receiver.json("submission", "show", "store")["records"]] == ["accepted"] * 2


def test_a_run_is_not_bound_to_what_no_record_could_meet(sender: Person, challenge: Path) -> None:
    """Expired, for another suite, no challenge at all: one line before anything starts."""
    value = json.loads(challenge.read_bytes())
    write_suite(sender.home / "tasks/other", ("c",))
    cases: tuple[tuple[dict[str, str], str, int, str], ...] = (
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "small", 2, "expired at 2020-01-01T00:00:00Z"),
        ({}, "other", 2, "is for suite small"),
        ({"schema": "plan-v1"}, "small", 3, "$.schema"),
        ({"expiresAt": "2020-13-01T00:00:00Z"}, "small", 3, "$.expiresAt"),
    )
    for change, suite, status, says in cases:
        (sender.home / "c.json").write_text(json.dumps(value | change, sort_keys=True, separators=(",", ":")))
        ended = sender(
            "run", "--suite", suite, "--solver", "noop", "--challenge", "c.json", "--out", "r", status=status
        )
        assert says in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
        assert not (sender.home / "r").exists()


def test_a_resumed_run_is_bound_to_its_first_challenge(sender: Person, challenge: Path) -> None:
    """The plan holds it: the flag may be left out, and another one is another run (status 2)."""
    sender(*RUN, "--solver", "noop", "--challenge", "challenge.json", "--out", "r")
    assert "nothing was left to run" in sender("run", "--resume", "r").stderr
    value = json.loads(challenge.read_bytes()) | {"nonce": "0" * 64}
    (sender.home / "c.json").write_text(json.dumps(value, sort_keys=True, separators=(",", ":")))
    refused = sender("run", "--resume", "r", "--suite", "small", "--solver", "noop", "--challenge", "c.json", status=2)
    assert "challenge: " in refused.stderr
