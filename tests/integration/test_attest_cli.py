"""`appliance trust`, `sign` and `verify`, as they are typed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.record_builder import record
from tests.typed_cli import ROOT, Typed


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    return Typed(tmp_path)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Typed:
    """Signed once; nobody may change it."""
    typed = Typed(tmp_path_factory.mktemp("template"))
    typed.keep(record())
    typed("sign", "run/records/noop.json")
    return typed


@pytest.fixture
def signed(template: Typed, tmp_path: Path) -> Typed:
    shutil.copytree(template.home, tmp_path, dirs_exist_ok=True)
    return Typed(tmp_path)


def test_a_record_is_signed_and_verified_by_the_name_of_the_local_trust(signed: Typed) -> None:
    """`sign` makes the local trust once; `verify --trust local` implies name and issuer (formats 8)."""
    found = signed.json("verify", "run/records/noop.json", "--trust", "local", "--allow-missing-blobs")
    assert found["verified"]
    assert [check["number"] for check in found["checks"]] == list(range(1, len(found["checks"]) + 1))
    assert found["assurance"] == "local"
    assert found["provenance"] == "estimator"
    assert found["identity"].startswith("https://appliance.local.invalid/")
    assert found["issuer"] == "https://oidc.local.invalid"
    assert found["recordSha256"] == hashlib.sha256(signed.record.read_bytes()).hexdigest()
    assert found["bundleSha256"] == hashlib.sha256(signed.bundle.read_bytes()).hexdigest()


def test_every_check_is_printed_and_those_that_did_not_run_come_last(signed: Typed) -> None:
    """Numbers, words, assurance and provenance for a person (formats 8)."""
    lines = signed("verify", "run/records/noop.json", "--trust", "local", "--allow-missing-blobs").stdout.splitlines()
    checks = [line for line in lines if line[:3].strip().isdigit()]
    states = ["not run" if "not run" in line[:14] else line.split()[1] for line in checks]
    assert states == sorted(states, key=lambda state: state == "not run")
    assert "FAILED" not in states
    text = "\n".join(lines)
    assert "local: self-asserted key, self-asserted clock, forkable log" in text
    assert "provenance estimator" in text
    assert lines[-1].split(maxsplit=1) == ["verdict", "verified, but for blobs that are not here"]


def test_a_blob_that_is_not_there_is_status_7_unless_that_was_allowed(signed: Typed) -> None:
    """Not run is not passed (formats 8)."""
    for blob in signed.blobs.iterdir():
        blob.unlink()
    found = signed.json("verify", "run/records/noop.json", "--trust", "local", status=7)
    assert found["error"]["reason"] == "blob"
    assert "--allow-missing-blobs" in found["error"]["mend"]
    signed("verify", "run/records/noop.json", "--trust", "local", "--allow-missing-blobs")


def test_an_exported_root_verifies_with_its_pin_and_name_and_not_without(signed: Typed) -> None:
    """What `trust export` prints is the line that a stranger types; each part of it is needed (V1, V14)."""
    line = signed("trust", "export", "--out", "root.json").stdout.split()
    words = ["run/records/noop.json" if word == "RECORD" else word for word in line[1:]]
    signed(*words, "--allow-missing-blobs")
    pin = words.index("--root-sha256")
    assert signed.json(*words[:pin], *words[pin + 2 :], status=7)["error"]["reason"] == "trust_root"
    wrong = [*words[: pin + 1], "0" * 64, *words[pin + 2 :]]
    assert signed.json(*wrong, status=7)["error"]["reason"] == "trust_root"
    for option in ("--identity", "--issuer"):
        at = words.index(option)
        assert signed.json(*words[:at], *words[at + 2 :], status=2)["error"]["reason"] == "usage"
    other = [word.replace("/appliance.local.invalid/", "/appliance.local.invalid/1") for word in words]
    assert signed.json(*other, status=7)["error"]["reason"] == "identity"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["verify", "run/records/noop.json"], 2),
        (["verify", "run/records/noop.json", "--trust", "local", "--trusted-root", "x"], 2),
        (["verify", "run/records/noop.json", "--trust", "local", "--root-sha256", "0"], 2),
        (["verify", "run/records/noop.json", "--trust", "local", "--blobs", "none"], 2),
        (["verify", "none.json", "--trust", "local"], 3),
        (["verify", "run/blobs", "--trust", "local"], 2),
        (["verify", "run/records/noop.json", "--trust", "nobody"], 7),
        (["verify", "run/records/noop.json", "--trust", "local", "--bundle", "none.json"], 7),
        (["verify"], 2),
        (["sign", "none.json"], 3),
        (["sign", "run/records/noop.sigstore.json"], 3),
        (["sign", "run/records/noop.json", "--trust", "nobody"], 2),
        (["trust", "export", "--trust", "nobody"], 7),
        (["trust", "export", "--out", "run/records/noop.json"], 2),
    ],
)
def test_what_cannot_be_done_is_one_line_and_its_status(signed: Typed, words: list[str], status: int) -> None:
    """File, place and mend; never a traceback, and nothing written (design 7)."""
    before = sorted(signed.home.rglob("*"))
    ended = signed(*words, status=status)
    assert ended.stdout == ""
    assert ended.stderr.strip()
    assert sorted(signed.home.rglob("*")) == before


def test_a_changed_record_is_refused_with_its_class(signed: Typed) -> None:
    """Status 7, the class in --json, and the check that failed by its number (V3)."""
    signed.record.write_bytes(signed.record.read_bytes().replace(b"resolved", b"Resolved", 1))
    found = signed.json("verify", "run/records/noop.json", "--trust", "local", status=7)
    assert (found["verified"], found["error"]["reason"]) == (False, "subject")
    assert [check["number"] for check in found["checks"] if check["status"] == "failed"] == [16]


def test_a_statement_that_says_something_else_than_its_record_is_refused(typed: Typed) -> None:
    """Signed by the genuine key over the genuine bytes, but the statement tells another suite's digest (attest 4)."""
    from appliance.audit.trust import claims_of
    from attest.signing import sign_record
    from attest.trust.local import open_or_init

    one = record()
    typed.keep(one)
    typed("trust", "init")
    claims = claims_of(one)
    other = claims.model_copy(update={"suite": claims.suite.model_copy(update={"version": "99"})})
    trust = open_or_init(typed.home / "share/bench-appliance/trust/local")
    typed.bundle.write_bytes(sign_record(trust, one.canonical(), other, name="noop.json"))
    found = typed.json("verify", "run/records/noop.json", "--trust", "local", "--allow-missing-blobs", status=7)
    assert found["error"]["reason"] == "statement"
    assert "suite" in found["error"]["where"]


def test_the_local_trust_is_made_once_and_shown_with_its_log(typed: Typed) -> None:
    """`trust init` twice is one instance; `trust show` reads the log again and says what is no longer as pinned."""
    first, second = typed.json("trust", "init"), typed.json("trust", "init")
    assert (first.pop("made"), second.pop("made")) == (True, False)
    assert first == second
    typed.keep(record())
    typed("sign", "run/records/noop.json")
    shown = typed.json("trust", "show")
    assert [(root["name"], root["assurance"], root["state"]) for root in shown["roots"]] == [
        ("local", "local", "as pinned")
    ]
    assert shown["local"]["size"] == 1
    Path(first["root"]).write_bytes(b"{}")
    changed = typed.json("trust", "show", status=7)
    assert changed["local"] is None
    assert changed["roots"][0]["state"].startswith("refused: sha256 is")


def test_help_of_the_three_verbs_imports_no_sigstore(typed: Typed) -> None:
    """Heavy things are imported by the work, not by the words (issue 3, Speed)."""
    code = (
        "import sys; from appliance.cli import main\n"
        "for verb in ('trust', 'sign', 'verify'):\n"
        "    main.run([verb, '--help'])\n"
        "print(sorted({'sigstore', 'docker', 'cryptography', 'attest'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=typed.environment, capture_output=True, text=True, check=True
    )
    assert ended.stderr.strip().splitlines()[-1] == "[]"
