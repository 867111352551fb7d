"""`appliance verify` over several records, over folders, and over nothing, as it is typed."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from appliance.audit import found
from appliance.audit.trust import bundle_path, claims_of
from appliance.cli import output, verify_many
from appliance.cli.main import run
from appliance.records.record import Record
from appliance.submissions.challenge import Challenge, ChallengedPolicy, ChallengedSuite, new_challenge
from attest.signing import sign_record
from attest.trust.local import LocalTrust, open_or_init
from tests.policy_builder import Made, believable, of_one, plan, tables, toml


@dataclass
class Home:
    """A machine's own trust, a run folder of it, and what is typed."""

    folder: Path
    capsys: pytest.CaptureFixture[str] | None = None

    @property
    def trust(self) -> LocalTrust:
        return open_or_init(self.folder / "share/bench-appliance/trust/local")

    @property
    def records(self) -> Path:
        return self.folder / "run/records"

    def keep(self, name: str, made: Made, *, signed: bool = True) -> Path:
        self.records.mkdir(parents=True, exist_ok=True)
        made.store(self.folder / "run/blobs")
        path = self.records / f"{name}.json"
        path.write_bytes(made.record.canonical())
        if signed:
            sign(self.trust, path, made.record)
        return path

    def policy(self, **changes: Any) -> Path:
        path = self.folder / "policy.toml"
        path.write_text(toml(tables(self.trust, **{"stamps": {"harness": "any"}, **changes})))
        return path

    def __call__(self, *words: str | Path, status: int = 0) -> tuple[str, str]:
        assert self.capsys is not None
        self.capsys.readouterr()
        output._emitted = False  # one process stands for many commands
        ended = run(["verify", *map(str, words)])
        said = self.capsys.readouterr()
        assert ended == status, f"{words}: {ended}\n{said.out}\n{said.err}"
        return said.out, said.err

    def json(self, *words: str | Path, status: int = 0) -> Any:
        return json.loads(self(*words, "--json", status=status)[0])


def sign(trust: LocalTrust, path: Path, record: Record) -> None:
    bundle_path(path).write_bytes(sign_record(trust, path.read_bytes(), claims_of(record), name=path.name))


def numbered(number: int) -> Made:
    """Its walls are its own, and so its journal."""
    identity = f"0192f0c4-1111-7000-8000-{number:012}"
    walls = (1.234567891 + number / 97, 0.0135791)
    return believable(lambda at: {"wall": walls[0] + at * walls[1]}, record_id=identity, version="1.0", commit="1" * 40)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three signed records in a run folder, and the root in roots.toml; nobody may change it."""
    home = Home(tmp_path_factory.mktemp("template"))
    for at, name in enumerate(("a", "b", "c")):
        home.keep(name, numbered(at))
    return home.folder


@pytest.fixture
def home(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Home:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert run(["trust", "init"]) == 0
    return Home(tmp_path, capsys)


LOCAL = ("--trust", "local")
_ROOT = Path(__file__).resolve().parents[2]


# ----------------------------------------------------------------------------------------------------------- several


def test_every_record_of_a_run_folder_is_verified_in_one_line_each_and_a_sum(home: Home) -> None:
    """A run folder, its `records` folder, the records by name and the same record twice: three records, one line each
    (row P11's `verify DIR`)."""
    for words in ([Path("run")], [home.records], sorted(home.records.glob("?.json")), [Path("run"), Path("run")]):
        lines = home(*words, *LOCAL)[0].splitlines()
        assert [line.split()[0] for line in lines[:3]] == ["verified"] * 3
        assert [Path(line.split()[1]).name for line in lines[:3]] == ["a.json", "b.json", "c.json"]
        assert all(line.split()[2] == "local" for line in lines[:3])
        assert lines[3:] == ["", "3 verified of 3 records"]


def test_several_records_are_one_document_whose_passed_checks_are_counted(home: Home) -> None:
    """One document with a value a record; what passed is a number, whatever else a check came to is listed."""
    found = home.json(Path("run"), *LOCAL)
    assert found["verified"]
    assert found["count"] == {"verified": 3}
    assert [Path(one["record"]).name for one in found["records"]] == ["a.json", "b.json", "c.json"]
    alone = home.json(home.records / "a.json", *LOCAL)
    assert all(one["passed"] == len(alone["checks"]) and one["checks"] == [] for one in found["records"])
    same = {key: value for key, value in alone.items() if key not in {"checks", "record"}}
    assert same.items() <= found["records"][0].items()


def change(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"smoke"', b'"smokE"', 1))


BAD: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a record that was changed": ("subject", change),
    "a record without its bundle": ("bundle", lambda path: bundle_path(path).unlink()),
    "a bundle that is empty": ("bundle", lambda path: bundle_path(path).write_bytes(b"")),
    "a bundle that is no JSON": ("bundle", lambda path: bundle_path(path).write_bytes(b"{")),
    "a bundle without its record": ("record", lambda path: path.unlink()),
    "a bundle of another record": (
        "subject", lambda path: shutil.copy(path.with_name("a.sigstore.json"), bundle_path(path)),
    ),
    "an empty record": ("unread", lambda path: path.write_bytes(b"")),
    "a folder in a record's place": ("unread", lambda path: (path.unlink(), path.mkdir())),
    "a link in a record's place": ("unread", lambda path: (path.unlink(), path.symlink_to("a.json"))),
    "a link in a bundle's place": (
        "bundle", lambda path: (bundle_path(path).unlink(), bundle_path(path).symlink_to("a.sigstore.json")),
    ),
    "a pipe in a record's place": ("unread", lambda path: (path.unlink(), os.mkfifo(path))),
    "a record of five gigabytes": ("unread", lambda path: os.truncate(path, 5 * 10**9)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_one_bad_record_is_told_and_the_others_are_verified_all_the_same(home: Home, case: str) -> None:
    """Status 7, its class, its place; no other record is passed over (rows V3, V7, P11)."""
    reason, spoil = BAD[case]
    spoil(home.records / "b.json")
    found = home.json(Path("run"), *LOCAL, status=7)
    assert not found["verified"]
    assert found["count"] == {"refused": 1, "verified": 2}
    assert found["refusedBy"] == {reason: 1}
    told = {Path(one["record"]).name: one["verified"] for one in found["records"]}
    bad = "b.sigstore.json" if case == "a bundle without its record" else "b.json"
    assert told == {"a.json": True, bad: False, "c.json": True}
    assert found["error"]["status"] == 7
    out, err = home(Path("run"), *LOCAL, status=7)
    lines = {Path(line.split()[1]).name: line.split()[0] for line in out.splitlines()[:3]}
    assert lines == {"a.json": "verified", bad: "REFUSED", "c.json": "verified"}
    assert f"1 of 3 records refused (1 {reason})" in err


def test_a_record_whose_bundle_is_missing_is_told_what_signs_it(home: Home) -> None:
    """Where the bundle was looked for, and both mends: alone and among others."""
    bundle_path(home.records / "b.json").unlink()
    for words in ([Path("run")], [home.records / "b.json"]):
        found = home.json(*words, *LOCAL, status=7)
        error = (found["records"][1] if "records" in found else found)["error"]
        assert error["reason"] == "bundle"
        assert error["where"].endswith("run/records/b.sigstore.json")
        assert "appliance sign RECORD" in error["mend"]


def test_a_blob_that_was_altered_is_named_and_one_that_is_missing_is_not_run(home: Home) -> None:
    """Class blob with the place in the record, of the one record that it is a blob of (rows A43, P6)."""
    record = Record.from_canonical((home.records / "b.json").read_bytes(), "")
    journal = home.folder / "run/blobs/sha256" / record.journal.sha256
    content = journal.read_bytes()
    journal.chmod(0o644)
    journal.write_bytes(content[:-2] + b"x\n")
    refused = [one for one in home.json(Path("run"), *LOCAL, status=7)["records"] if not one["verified"]]
    assert [Path(one["record"]).name for one in refused] == ["b.json"]
    assert refused[0]["error"]["reason"] == "blob"
    assert refused[0]["error"]["where"] == "$.journal"
    assert refused[0]["error"]["message"] == "blob has another digest"
    journal.unlink()
    refused = [one for one in home.json(Path("run"), *LOCAL, status=7)["records"] if not one["verified"]]
    assert [(one["status"], one["why"]) for one in refused[0]["checks"]] == [
        ("not_run", "not there: $.journal"),
        ("not_run", "no journal among the blobs"),
    ]
    home(Path("run"), *LOCAL, "--allow-missing-blobs")


# ----------------------------------------------------------------------------------------------------------- nothing


def test_a_verification_over_nothing_is_refused_as_usage(home: Home, tmp_path: Path) -> None:
    """No path, an empty folder, a folder without records, a run that wrote none: status 2 and class usage."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other/notes").mkdir(parents=True)
    (tmp_path / "other/notes/a.json").write_text("{}")
    (tmp_path / "begun/records").mkdir(parents=True)
    (tmp_path / "begun/plan.json").write_text("{}")
    for words in (["empty"], ["other"], ["begun"], ["run", "empty"], ["empty", "empty"]):
        error = home.json(*words, *LOCAL, status=2)["error"]
        assert error["reason"] == "usage"
        assert "nothing to verify" in error["message"]
    assert "Missing argument" in home(*LOCAL, status=2)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "checked against one root"),
        (["run", *LOCAL, "--bundle", "run/records/a.sigstore.json"], "--bundle is of one record"),
        (["run", *LOCAL, "--anchor", "a.json"], "--anchor is of one record"),
        (["run/records/a.json", *LOCAL, "--challenge", "c.json"], "--challenge goes with --policy"),
        (["run/records/a.json", *LOCAL, "--anchor", "c.json"], "an anchor is a signature of its own"),
        (["run/records/a.json", *LOCAL, "--blobs", "none"], "no such folder"),
        (["run/records/a.provenance.sigstore.json", *LOCAL], "a bundle, not a record"),
    ],
)
def test_words_that_do_not_go_together_are_refused_before_a_record_is_read(
    home: Home, words: list[str], said: str
) -> None:
    """Status 2, and no verdict on anything."""
    out, err = home(*words, status=2)
    assert said in err
    assert "verified" not in out


# ------------------------------------------------------------------------------------------------------------ bounds


def test_a_folder_of_too_many_records_or_entries_is_refused_naming_the_bound(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted before anything is read (row P11)."""
    monkeypatch.setattr(found, "MOST_RECORDS", 2)
    assert "3 records, over the bound of 2" in home(Path("run"), *LOCAL, status=3)[1]
    monkeypatch.setattr(found, "MOST_ENTRIES", 5)
    assert "over the bound of 5 entries" in home(Path("run"), *LOCAL, status=3)[1]


def test_what_lies_deeper_is_not_looked_at_and_a_link_for_a_folder_is_refused(home: Home, tmp_path: Path) -> None:
    """Depth one, and records alone: no anchor, twin or note beside them; a `records` that leads elsewhere is none (row
    P11)."""
    for beside in ("a.anchor.json", "a.provenance.sigstore.json", "notes.txt"):
        (home.records / beside).write_text("not looked at")
    deeper = home.records / "deeper/records"
    deeper.mkdir(parents=True)
    (deeper / "d.json").write_text("not looked at")
    assert home.json(Path("run"), *LOCAL)["count"] == {"verified": 3}
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent/records").symlink_to(home.records)
    assert "a symbolic link, not a folder" in home(tmp_path / "sent", *LOCAL, status=3)[1]


# ---------------------------------------------------------------------------------------------------------- processes


def many(home: Home, count: int) -> list[str]:
    names = []
    for number in range(count):
        names.append(f"m{number:03}")
        for suffix in (".json", ".sigstore.json"):
            shutil.copy(home.records / f"{'abc'[number % 3]}{suffix}", home.records / f"{names[-1]}{suffix}")
    return names


def test_records_of_several_processes_are_told_in_their_order_and_progress_on_standard_error(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same document as of one process; standard output holds nothing else."""
    names = many(home, 47)
    change(home.records / "m007.json")
    monkeypatch.setattr(verify_many, "_processors", lambda: 3)
    out, err = home(Path("run"), *LOCAL, "--json", status=7)
    shared = json.loads(out)
    assert [Path(one["record"]).stem for one in shared["records"]] == ["a", "b", "c", *names]
    assert [Path(one["record"]).stem for one in shared["records"] if not one["verified"]] == ["m007"]
    assert [line for line in err.splitlines() if "of 50 records" in line][:2] == ["5 of 50 records", "10 of 50 records"]
    monkeypatch.setattr(verify_many, "_processors", lambda: 1)
    assert home.json(Path("run"), *LOCAL, status=7) == shared


def test_a_process_that_is_killed_leaves_refusals_and_no_gaps(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its process did not come to is refused as internal: it fails closed."""
    many(home, 45)
    genuine = verify_many.judge

    def judge(record: Path, *words: Any, **more: Any) -> Any:
        return os._exit(9) if record.name == "m010.json" else genuine(record, *words, **more)

    monkeypatch.setattr(verify_many, "judge", judge)
    monkeypatch.setattr(verify_many, "_processors", lambda: 2)
    found = home.json(Path("run"), *LOCAL, status=7)
    assert len(found["records"]) == 48
    assert set(found["refusedBy"]) == {"internal"}
    refused = [Path(one["record"]).name for one in found["records"] if not one["verified"]]
    assert refused[0] == "m010.json"
    assert len(refused) == found["refusedBy"]["internal"] < 24
    assert all("was ended" in one["error"]["message"] for one in found["records"] if not one["verified"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whoever_ends_the_command_ends_its_processes(home: Home, number: signal.Signals) -> None:
    """Interrupted, stopped or killed outright: no process of it goes on, and nothing says that all is verified."""
    many(home, 597)  # more than the pipes hold: nobody ends for having said all
    program = "from appliance.cli import main, verify_many; verify_many._processors = lambda: 3; main.main()"
    command = subprocess.Popen(
        [sys.executable, "-c", program, "verify", "run", *LOCAL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        start_new_session=True,
    )
    assert command.stderr is not None
    assert "of 600 records" in command.stderr.readline()
    command.send_signal(number)
    assert "of 600 records" not in command.communicate(timeout=60)[0]
    assert command.returncode != 0
    for _ in range(600):
        if not _alive(command.pid):
            break
        time.sleep(0.1)
    assert _alive(command.pid) == []


def _alive(group: int) -> list[str]:
    """Processes of this group that are no zombies."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = stat.read_text().rpartition(")")[2].split()[:3]
            if int(of) == group and state != "Z":
                found.append(stat.parent.name)
    return found


# ------------------------------------------------------------------------------------------------------------- policy


def test_under_a_policy_its_signers_stand_for_the_trust_options(home: Home) -> None:
    """Root by digest from roots.toml, or from a file whose digest the policy has; the standing is said."""
    policy = home.policy()
    found = home.json(home.records / "a.json", "--policy", policy)
    assert found["verified"]
    assert found["standing"] == "accepted"
    (home.folder / "config/bench-appliance/roots.toml").unlink()
    error = home.json(home.records / "a.json", "--policy", policy, status=7)["error"]
    assert error["reason"] == "trust_root"
    root = home.trust.root_path
    assert home.json(home.records / "a.json", "--policy", policy, "--trusted-root", root)["standing"] == "accepted"
    assert home(Path("run"), "--policy", policy, "--trusted-root", root)[0].endswith("3 accepted of 3 records\n")


def test_what_the_policy_forbids_excludes_and_what_is_only_implausible_quarantines(home: Home) -> None:
    """Class policy and status 7 for both; the words of each failed check are told (rows P7, P8, A55)."""
    home.keep("b", believable(of_one(2, wall=900.25), version="1.0", commit="1" * 40))
    policy = home.policy()
    found = home.json(home.records / "b.json", "--policy", policy, status=7)
    assert found["standing"] == "quarantined"
    assert found["error"]["reason"] == "policy"
    failed = [one for one in found["checks"] if one["status"] == "failed"]
    assert {one["word"] for one in failed} == {"implausible"}
    assert home(home.records / "b.json", "--policy", policy, status=7)[0].splitlines()[-1].split() == [
        "standing", "quarantined:", "implausible",
    ]  # fmt: skip
    out, err = home(Path("run"), "--policy", policy, status=7)
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["verified", "QUARANTINED", "verified"]
    assert out.endswith("2 accepted, 1 quarantined of 3 records\n")
    assert "1 of 3 records refused (1 policy)" in err
    other = home.policy(suites={"digest": "0" * 64})
    found = home.json(home.records / "b.json", "--policy", other, status=7)
    assert found["standing"] == "excluded"
    assert {"policy", "implausible"} <= {one["word"] for one in found["checks"] if one["status"] == "failed"}


def test_a_signer_whom_the_policy_does_not_list_is_refused_by_identity(home: Home) -> None:
    """Also where the trust options name him: the policy is held to all the same (row V2)."""
    stranger = home.policy(signers={"identity": "https://appliance.local.invalid/" + "0" * 64})
    assert home.json(home.records / "a.json", "--policy", stranger, status=7)["error"]["reason"] == "identity"
    found = home.json(home.records / "a.json", "--policy", stranger, *LOCAL, status=7)
    assert found["error"]["reason"] == "policy"
    failed = [one["name"] for one in found["checks"] if one["status"] == "failed"]
    assert failed[0] == "its signer is one of the policy's"


def test_a_challenge_is_held_to_the_document_that_was_given(home: Home) -> None:
    """The one that the record names, in time, for its suite and policy; any other is replay, its word stale_challenge
    (rows V22, P5). Without the document it is not looked up, and a policy that requires one refuses that."""
    policy, now = home.policy(freshness={"challenge": "required"}), datetime.now(UTC)
    suite = ChallengedSuite(name="smoke", digest=plan().suite.digest)
    mine = ChallengedPolicy(name="example", version=1, sha256="0" * 64)
    good, late, other = (
        new_challenge(suite, mine, "1" * 64, timedelta(hours=1), at) for at in (now, now - timedelta(days=2), now)
    )
    foreign = new_challenge(ChallengedSuite(name="x", digest="2" * 64), mine, "1" * 64, timedelta(hours=1), now)
    for name, one in (("good", good), ("late", late), ("other", other), ("foreign", foreign)):
        (home.folder / f"{name}.challenge").write_bytes(one.canonical())
    for one, shown, said in (
        (good, "other", "issued for something else"),
        (late, "late", "expired"),
        (foreign, "foreign", "issued for something else"),
        (good, None, "not looked up"),
        (None, "good", "names none"),
    ):
        path = home.keep("d", answering(one))
        words = () if shown is None else ("--challenge", home.folder / f"{shown}.challenge")
        found = home.json(path, "--policy", policy, *words, status=7)
        wrong = [check for check in found["checks"] if check["name"] == "its challenge is good"]
        assert wrong[0]["reason"] == "replay"
        assert said in wrong[0]["why"]
    path = home.keep("d", answering(good))
    found = home.json(path, "--policy", policy, "--challenge", home.folder / "good.challenge", status=7)
    assert [one["status"] for one in found["checks"] if one["name"] == "its challenge is good"] == ["passed"]
    assert found["standing"] == "quarantined"  # its trials began long before that


def answering(challenge: Challenge | None) -> Made:
    of = plan(challenge=challenge.sha256 if challenge else None)
    return believable(of=of, version="1.0", commit="1" * 40)


def test_a_policy_that_cannot_be_read_is_told_before_any_record(home: Home) -> None:
    """Status 3 with file and line; nothing is verified under half a policy."""
    policy = home.policy()
    policy.write_text(policy.read_text() + "\nleast_tear = 1\n")
    out, err = home(Path("run"), "--policy", policy, status=3)
    assert out == ""
    assert f"{policy}:" in err


# ------------------------------------------------------------------------------------------------------- the statement


def test_the_signed_statement_carries_the_digest_of_the_schema_that_its_record_fits(home: Home) -> None:
    """Lower-case hex of the bytes that `schema show` prints; changed in the bundle, the signature no longer holds
    (row A33)."""
    path = bundle_path(home.records / "a.json")
    bundle = json.loads(path.read_bytes())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    stated = json.loads(payload)["predicate"]["schema"]
    assert home.capsys is not None
    home.capsys.readouterr()
    assert run(["schema", "show", "record-v1"]) == 0
    schema = home.capsys.readouterr().out
    assert json.loads(schema)["$id"] == stated["uri"]
    assert hashlib.sha256(schema.encode()).hexdigest() == stated["digest"]["sha256"]
    other = payload.replace(stated["digest"]["sha256"].encode(), b"0" * 64)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(other).decode()
    path.write_text(json.dumps(bundle))
    assert home.json(home.records / "a.json", *LOCAL, status=7)["error"]["reason"] == "signature"
