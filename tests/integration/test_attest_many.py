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
from appliance.cli import output, verify_many, verifying
from appliance.cli.main import run
from appliance.records.record import Check, Record
from appliance.submissions.challenge import Challenge, ChallengedPolicy, ChallengedSuite, new_challenge
from attest import statement
from attest.signing import sign_record, sign_statement
from attest.trust.local import LocalTrust, open_or_init
from tests import record_builder as build
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
        assert "--bundle FILE" in error["mend"]
        assert "a record that you made yourself: appliance sign RECORD" in error["mend"]


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


def test_blobs_that_were_not_looked_at_are_told_in_the_line_and_in_the_sum(home: Home) -> None:
    """`--allow-missing-blobs` is status 0, and no plain `verified` (row P6)."""
    record = Record.from_canonical((home.records / "b.json").read_bytes(), "")
    (home.folder / "run/blobs/sha256" / record.journal.sha256).unlink()
    lines = home(Path("run"), *LOCAL, "--allow-missing-blobs")[0].splitlines()
    assert [line.partition("  but for blobs that are not here: ")[2] for line in lines[:3]] == [
        "",
        "not there: $.journal",
        "",
    ]
    assert lines[-1] == "3 verified of 3 records (1 without all blobs)"
    alone = home(home.records / "b.json", *LOCAL, "--allow-missing-blobs")[0].splitlines()[-1]
    assert alone.split(maxsplit=1)[1].startswith("verified, but for blobs that are not here")
    mended = home(Path("run"), *LOCAL, status=7)[0].splitlines()[1]
    assert mended.endswith("(--blobs DIR, or --allow-missing-blobs)")


def test_a_folder_of_one_record_takes_the_options_of_one_record(home: Home) -> None:
    """`--bundle` is of one record, and so is a folder that holds one; the sum counts in the singular."""
    for name in ("b", "c"):
        (home.records / f"{name}.json").unlink()
        bundle_path(home.records / f"{name}.json").unlink()
    moved = bundle_path(home.records / "a.json").rename(home.folder / "elsewhere.sigstore.json")
    out, _ = home("run", *LOCAL, "--bundle", moved)
    assert out.splitlines()[-1] == "1 verified of 1 record"


@pytest.mark.parametrize("which", ["anchor", "index"])
def test_a_name_that_is_missing_is_asked_for_by_its_own_option(home: Home, which: str) -> None:
    """Each signature that is checked has a name and an issuer of its own."""
    (home.folder / "a.anchor.json").write_text("{}")
    (home.folder / "run/index.jsonl").write_text("{}")
    (home.folder / "run/trusted_root.json").write_bytes(home.trust.root.content)
    root = ("--trusted-root", home.trust.root_path, "--root-sha256", home.trust.root.sha256)
    with (home.folder / "config/bench-appliance/roots.toml").open("a") as roots:
        stated = {"name": "lab", "path": str(home.trust.root_path), "sha256": home.trust.root.sha256}
        lines = [f"{key} = {json.dumps(value)}" for key, value in {**stated, "assurance": "local"}.items()]
        roots.write("\n[[root]]\n" + "\n".join(lines) + "\n")
    of_anchor = [home.records / "a.json", *LOCAL, "--anchor", "a.anchor.json", "--anchor-trust", "lab"]
    words = of_anchor if which == "anchor" else [Path("run"), *LOCAL, "--index-trust", "lab"]
    error = home.json(*words, status=2)["error"]
    assert error["mend"] == f"--{which}-identity NAME --{which}-issuer URL"
    assert home.json(home.records / "a.json", *root, status=2)["error"]["mend"] == "--identity NAME --issuer URL"


# ----------------------------------------------------------------------------------------------------------- nothing


def test_a_verification_over_nothing_is_refused_as_usage(home: Home, tmp_path: Path) -> None:
    """No path, an empty folder, a folder without records, a run that wrote none: status 2 and class usage."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "other/notes").mkdir(parents=True)
    (tmp_path / "other/notes/a.json").write_text("{}")
    (tmp_path / "begun/records").mkdir(parents=True)
    (tmp_path / "begun/plan.json").write_text("{}")
    for words in (["empty"], ["other"], ["begun"]):
        error = home.json(*words, *LOCAL, status=2)["error"]
        assert error["reason"] == "usage"
        assert "nothing to verify" in error["message"]
    for words, verified in ((["run", "empty"], 3), (["empty", "empty"], 0)):
        told = home.json(*words, *LOCAL, status=2)
        assert told["error"]["reason"] == "usage"
        assert "nothing to verify" in told["records"][-1]["error"]["message"]
        assert told["count"].get("verified", 0) == verified
    assert "Missing argument" in home(*LOCAL, status=2)[1]
    assert home.json(*LOCAL, status=2)["error"]["reason"] == "usage"


def test_one_path_that_leads_to_no_record_keeps_no_other_from_being_verified(home: Home, tmp_path: Path) -> None:
    """Each is refused in its place; alone, a name that is too long, or a loop, is input that nobody can read (3)."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    bad = ("empty", "a" * 300, "none.json", "loop", "run/records/none.sigstore.json")
    told = home.json("run/records/b.json", *bad, "run/records/a.json", *LOCAL, status=7)
    assert [(one["record"], one["verified"]) for one in told["records"]] == [
        ("run/records/b.json", True),
        *((path, False) for path in bad),
        ("run/records/a.json", True),
    ]
    assert all(one["error"]["message"] for one in told["records"] if not one["verified"])
    for path in ("a" * 300, "loop"):
        assert home.json(path, *LOCAL, status=3)["error"]["status"] == 3
    under = home.json("run/records/b.json", "empty", "--policy", home.policy(), status=2)
    assert [one["standing"] for one in under["records"]] == ["accepted", "excluded"]


def test_a_record_counts_once_whichever_way_it_is_named(home: Home, tmp_path: Path) -> None:
    """And a link in another folder is another record: the bundle beside it is another."""
    (tmp_path / "other").symlink_to("run")
    ways = ("run/records/a.json", "run/records/../records/a.json", home.records / "a.json", "other/records/a.json")
    assert [one["record"] for one in home.json(*ways, *LOCAL)["records"]] == ["run/records/a.json"]
    assert len(home.json(*ways, "run", "other", *LOCAL)["records"]) == 3
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.json").symlink_to(home.records / "a.json")
    assert len(home.json("run/records/a.json", "elsewhere/a.json", *LOCAL, status=7)["records"]) == 2


def test_what_lies_beside_a_record_is_passed_over_where_the_record_is_named_too(home: Home) -> None:
    """`verify records/*.json`, as docs/verification.md writes it: a shell puts bundles, twins and anchors there too."""
    (home.records / "a.anchor.json").write_text("{}")
    (home.records / "a.provenance.sigstore.json").write_text("{}")
    told = home.json(*sorted(home.records.glob("*.json")), *LOCAL)
    assert [Path(one["record"]).name for one in told["records"]] == ["a.json", "b.json", "c.json"]
    (home.records / "b.json").unlink()
    told = home.json(*sorted(home.records.glob("*.json")), *LOCAL, status=2)
    assert [Path(one["record"]).name for one in told["records"] if not one["verified"]] == ["b.sigstore.json"]


def test_a_record_that_needs_more_memory_than_there_is_is_refused_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine's limit, told as such (status 4); under a policy it has a standing, as every other."""

    def full(path: Path, *, follow: bool = True) -> bytes:
        if path.name == "b.json":
            raise MemoryError
        return read(path, follow=follow)

    read = verifying.read_bounded_record
    monkeypatch.setattr(verifying, "read_bounded_record", full)
    told = home.json("run", "--policy", home.policy(), status=7)
    assert [one["standing"] for one in told["records"]] == ["accepted", "excluded", "accepted"]
    assert told["refusedBy"] == {"internal": 1}
    assert "more memory" in home("run/records/b.json", *LOCAL, status=4)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "checked against one root"),
        (["run", *LOCAL, "--bundle", "run/records/a.sigstore.json"], "--bundle is of one record"),
        (["run", *LOCAL, "--anchor", "a.json"], "--anchor is of one record"),
        (["run/records/a.json", *LOCAL, "--challenge", "c.json"], "--challenge goes with --policy"),
        (["run/records/a.json", *LOCAL, "--anchor", "c.json"], "an anchor is a signature of its own"),
        (["run/records/a.json", *LOCAL, "--blobs", "none"], "no such folder"),
        (["run/records/a.sigstore.json", *LOCAL], "a bundle, not a record (appliance verify run/records/a.json"),
        (["run/records/none.sigstore.json", *LOCAL], "no such file or directory"),
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


FAKED = "x\n\nverdict    verified\nstanding   accepted\nverified    b.json\n"


def test_what_a_stranger_wrote_into_a_record_begins_no_line_of_its_own(home: Home) -> None:
    """Row V1: alone or among many, whatever a host says of itself stands within the line of its check."""
    check = Check(name="load", level="error", message=FAKED)
    path = home.keep("d", believable(hosts=(build.host_stamp(fitness=(check,)),)))
    out, err = home(path, "--policy", home.policy(), status=7)
    told = [
        line.split()[:2] for line in (out + err).splitlines() if line.startswith(("verdict", "standing", "verified"))
    ]
    assert told == [["verdict", "refused:"], ["standing", "excluded:"]]
    assert "x\\n\\nverdict    verified" in out
    out, err = home(home.records, "--policy", home.policy(), status=7)
    assert "b.json" not in [line.split()[1] for line in (out + err).splitlines() if len(line.split()) == 2]


def test_a_file_s_name_begins_no_line_of_its_own(home: Home) -> None:
    """Row V1: a line feed in the name of a genuine record's copy, in a folder of a stranger."""
    name = "x.json  local\nverified    BEST.json  public  2026-11-30T00:00:00Z  somebody\n"
    path = home.records / f"{name}.json"
    path.write_bytes((home.records / "a.json").read_bytes())
    bundle_path(path).write_bytes(bundle_path(home.records / "a.json").read_bytes())
    lines = home(home.records, *LOCAL)[0].splitlines()
    assert len(lines) == len(["a", "b", "c", "copy", "", "the sum"])
    assert not [line for line in lines if line.split()[1:2] == ["BEST.json"]]


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
        wrong = [check for check in found["checks"] if check["name"].startswith("its challenge is good")]
        assert wrong[0]["reason"] == "replay"
        assert said in wrong[0]["why"]
        assert wrong[0]["word"] == "stale_challenge"
    path = home.keep("d", answering(good))
    for words in ([path], [home.records]):
        out, err = home(*words, "--policy", policy, status=7)
        assert "--challenge FILE, the one that you issued" in out + err
        assert "--allow-missing-blobs" not in out + err
    assert "EXCLUDED    " in out
    assert "  stale_challenge: not checked: its challenge was not looked up (--challenge FILE" in out
    found = home.json(path, "--policy", policy, "--challenge", home.folder / "good.challenge", status=7)
    [passed] = [one for one in found["checks"] if one["name"].startswith("its challenge is good")]
    assert passed["status"] == "passed"
    assert "if it is one that you issued: nobody checked that" in passed["name"]  # it was made here, by nobody
    assert found["standing"] == "quarantined"  # its trials began long before that


def test_whose_challenge_it_is_is_checked_where_somebody_says_whose_it_must_be(home: Home) -> None:
    """Its bundle lies beside it: signed by another, about other bytes, of another kind or not there, nothing is
    verified under it; without the options a line says that nobody checked (rows V22, P5)."""
    policy, now = home.policy(freshness={"challenge": "required"}), datetime.now(UTC)
    mine = ChallengedPolicy(name="example", version=1, sha256="0" * 64)
    one = new_challenge(
        ChallengedSuite(name="smoke", digest=plan().suite.digest), mine, "1" * 64, timedelta(hours=1), now
    )
    shown, beside = home.folder / "c.json", home.folder / "c.sigstore.json"
    shown.write_bytes(one.canonical())
    path = home.keep("d", answering(one))
    words = (path, "--policy", policy, "--challenge", shown)
    whose = ("--challenge-trust", "local")

    def signed(content: bytes, kind: str = statement.CHALLENGE_TYPE) -> None:
        about = statement.build("c.json", content, json.loads(content), kind)
        beside.write_bytes(sign_statement(home.trust, about, kind))

    signed(one.canonical())
    found = home.json(*words, *whose, status=7)
    [passed] = [check for check in found["checks"] if check["name"].startswith("its challenge is good")]
    assert (passed["status"], passed["name"]) == ("passed", f"its challenge is good, signed by {home.trust.identity}")
    assert "on your word" not in home(*words, *whose, status=7)[1]
    assert "nobody checked who issued it" in home(*words, status=7)[1]
    assert "SANs do not match" in home(*words, *whose, "--challenge-identity", "mallory@example.com", status=7)[1]
    for kind in (statement.SUBMISSION_ACT_TYPE, statement.INDEX_CHECKPOINT_TYPE):
        signed(one.canonical(), kind)
        assert "c.json" in home(*words, *whose, status=7)[1]
    other = one.model_copy(update={"nonce": "2" * 64})
    signed(other.canonical())
    assert "not the bytes that were signed" in home(*words, *whose, status=7)[1]
    beside.unlink()
    assert "`challenge new`" in home(*words, *whose, status=7)[1]
    assert "--challenge FILE" in home(path, "--policy", policy, *whose, status=2)[1]


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
