"""`appliance reproduce` as a stranger types it, on records that the same machine just made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.digests import sha256_hex
from appliance.records.record import Record
from appliance.solvers.definition import read_definition
from tests.sigstore_twin import WORKFLOW, running
from tests.trials_suites import write_solver, write_suite

pytestmark = pytest.mark.docker


def _appliance(*words: str, cwd: Path, home: Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "XDG_DATA_HOME": str(home / "share"),
        "XDG_CONFIG_HOME": str(home / "config"),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words],
        cwd=cwd,
        env={**environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr
    return ended


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two tasks by reference, in a folder with everything that it needed."""
    home = tmp_path_factory.mktemp("publisher")
    write_suite(home / "tasks/pair", ("one", "two"))
    _appliance("run", "--suite", "pair", "--solver", "reference", "--rollouts", "2", "--out", "r", cwd=home, home=home)
    return home


def test_the_run_folder_is_all_that_is_needed(made: Path, tmp_path: Path) -> None:
    """The suite comes from the record's blobs; every trial is run again and compared; the verdict is on disk (R1, R2,
    R5)."""
    shutil.copytree(made / "r", tmp_path / "got")
    folder = tmp_path / "got/records"
    ended = _appliance("reproduce", "reference.json", "--json", "--out", "again", cwd=folder, home=tmp_path)
    verdict = json.loads(ended.stdout)
    assert verdict["outcome"] == {"verdict": "reproduced", "reasons": []}
    taken = _appliance("reproduce", "reference.json", "--out", "again", cwd=folder, home=tmp_path, status=2)
    assert taken.stderr.endswith("again: holds a run already (another --out)\n")
    assert verdict["checked"] == "unverified"
    assert "unverified" in ended.stderr
    assert (verdict["comparedTrials"], verdict["recordedTrials"]) == (4, 4)
    assert json.loads((folder / "again/verdict.json").read_bytes()) == verdict


def test_the_record_alone_names_what_is_missing(made: Path, tmp_path: Path) -> None:
    """Without blobs and without the suite: status 3, the digest, every place looked at, the mend (R1)."""
    shutil.copy(made / "r/records/reference.json", tmp_path / "record.json")
    ended = _appliance("reproduce", "record.json", cwd=tmp_path, home=tmp_path, status=3)
    digest = Record.read(tmp_path / "record.json").suite.digest
    assert digest[:12] in ended.stderr
    for place in ("the record's blobs", "./tasks", "the shipped suites"):
        assert f"{place}: not there" in ended.stderr
    assert "--suite PATH" in ended.stderr
    given = ("--suite", str(made / "tasks/pair"))
    _appliance("reproduce", "record.json", *given, "--trials", "1", cwd=tmp_path, home=tmp_path)


def test_the_plan_is_shown_from_the_record_alone(made: Path, tmp_path: Path) -> None:
    """`--plan` needs neither engine nor suite, and runs nothing (R1)."""
    shutil.copy(made / "r/records/reference.json", tmp_path / "record.json")
    ended = _appliance("reproduce", "record.json", "--plan", "--json", cwd=tmp_path, home=tmp_path)
    socket = ("--socket", "none.sock", "--meter-socket", "none.sock")  # two words for one thing
    _appliance("reproduce", "record.json", "--plan", *socket, cwd=tmp_path, home=tmp_path)
    shown = json.loads(ended.stdout)
    assert shown["planDigest"] == Record.read(tmp_path / "record.json").plan_digest
    assert len(shown["trials"]) == 4
    assert "unverified" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_a_sample_says_what_share_it_saw(made: Path, tmp_path: Path) -> None:
    """`--trials K` and `--task T` compare K trials, or T's, and the verdict states the share (R6)."""
    record = str(made / "r/records/reference.json")
    one = json.loads(_appliance("reproduce", record, "--trials", "1", "--json", cwd=tmp_path, home=tmp_path).stdout)
    assert (one["comparedTrials"], one["recordedTrials"]) == (1, 4)
    task = json.loads(
        _appliance("reproduce", record, "--task", "two", "--json", "--out", "t", cwd=tmp_path, home=tmp_path).stdout
    )
    assert (task["comparedTrials"], task["outcome"]["verdict"]) == (2, "reproduced")


def test_a_signed_verdict_is_a_verification_summary_of_the_record(made: Path, tmp_path: Path) -> None:
    """`--sign` leaves a SLSA summary that sigstore's own verifier takes: its subject is the record, it names the bundle
    that was checked and verdict.json by digest, and says what share it saw (R5, R6, P3)."""
    shutil.copytree(made / "config", tmp_path / "config")
    shutil.copytree(made / "share", tmp_path / "share")
    record = made / "r/records/reference.json"
    words = ("reproduce", str(record), "--trust", "local", "--trials", "1", "--sign", "--out", "again")
    _appliance(*words, cwd=tmp_path, home=tmp_path)
    from sigstore.models import Bundle, TrustedRoot
    from sigstore.verify import Verifier, policy

    root = next((tmp_path / "share").rglob("trusted_root.json"))
    bundle = Bundle.from_json((tmp_path / "again/verdict.sigstore.json").read_bytes())
    _, payload = Verifier(trusted_root=TrustedRoot.from_file(str(root))).verify_dsse(bundle, policy.UnsafeNoOp())
    statement = json.loads(payload)
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    assert statement["subject"] == [
        {"name": "reference.json", "digest": {"sha256": sha256_hex(record.read_bytes())}},
    ]
    said = statement["predicate"]
    assert (said["verificationResult"], said["verifiedLevels"]) == ("PASSED", ["BENCH_REPRODUCED_WITHIN_TOLERANCE"])
    checked = made / "r/records/reference.sigstore.json"
    assert [one["digest"]["sha256"] for one in said["inputAttestations"]] == [sha256_hex(checked.read_bytes())]
    details = said["benchAppliance_details"]
    assert details["verdict"] == sha256_hex((tmp_path / "again/verdict.json").read_bytes())
    assert (details["comparedTrials"], details["recordedTrials"], details["checked"]) == (1, 4, "verified")
    assert details["again"] == sha256_hex((tmp_path / "again/records/reference.json").read_bytes())


def test_a_verdict_is_signed_by_a_deployment_as_well(made: Path, tmp_path: Path) -> None:
    """`--sign-with NAME` with a token of its own; a verdict nobody can sign stays on disk, unsigned (R5)."""
    with running(tmp_path / "twin") as twin:
        (tmp_path / "lab.json").write_bytes(twin.trust_config())
        (tmp_path / "token").write_text(twin.token())
        _appliance("trust", "init", "--name", "lab", "--config", "lab.json", cwd=tmp_path, home=tmp_path)
        record = str(made / "r/records/reference.json")
        words = ("reproduce", record, "--trials", "1", "--sign-with", "lab", "--identity-token", "token")
        _appliance(*words, "--out", "again", cwd=tmp_path, home=tmp_path)
        twin.faults["fulcio"] = "error"
        failed = _appliance(*words, "--out", "failed", cwd=tmp_path, home=tmp_path, status=7)
    assert "failed/verdict.json, unsigned" in failed.stderr
    assert (tmp_path / "failed/verdict.json").exists()
    assert not (tmp_path / "failed/verdict.sigstore.json").exists()
    who = ("--trust", "lab", "--identity", WORKFLOW, "--issuer", twin.issuer)
    shown = _appliance("verify", "again/verdict.sigstore.json", *who, "--json", cwd=tmp_path, home=tmp_path)
    found = json.loads(shown.stdout)
    assert (found["result"], found["assurance"], found["verifier"]) == ("PASSED", "private", WORKFLOW)
    assert found["details"]["checked"] == "unverified"
    assert found["bundles"] == []


def test_a_machine_that_cannot_sign_a_verdict_says_so_before_the_first_trial(made: Path, tmp_path: Path) -> None:
    """Status 7 with nothing begun (R5)."""
    _appliance("trust", "init", cwd=tmp_path, home=tmp_path)
    next((tmp_path / "share").rglob("oidc.pem")).chmod(0o644)
    words = ("reproduce", str(made / "r/records/reference.json"), "--trials", "1", "--sign", "--out", "again")
    assert "a private key that others may read" in _appliance(*words, cwd=tmp_path, home=tmp_path, status=7).stderr
    assert not (tmp_path / "again").exists()


def test_a_claim_that_does_not_hold_ends_with_status_eight(made: Path, tmp_path: Path) -> None:
    """A record that claims another outcome is not reproduced; the first difference is shown (R5)."""
    shutil.copytree(made / "r", tmp_path / "got")
    path = tmp_path / "got/records/reference.json"
    record = json.loads(path.read_bytes())
    record["trials"][0]["outcome"], record["trials"][0]["reason"] = "unresolved", "tests_failed"
    from attest import canonical

    path.write_bytes(canonical.dumps(record))
    ended = _appliance("reproduce", str(path), cwd=tmp_path, home=tmp_path, status=8)
    assert "diverged" in ended.stdout
    assert "$.trials[0].outcome: recorded unresolved, now resolved" in ended.stdout


def test_a_record_that_fails_its_check_is_not_run(made: Path, tmp_path: Path) -> None:
    """With trust options given, a signature that does not hold ends with 7 before any container (R1)."""
    shutil.copytree(made / "r", tmp_path / "got")
    shutil.copytree(made / "config", tmp_path / "config")
    path = tmp_path / "got/records/reference.json"
    path.write_bytes(path.read_bytes().replace(b'"wallSeconds":', b'"wallSeconds":1', 1))
    ended = _appliance("reproduce", str(path), "--trust", "local", cwd=tmp_path, home=tmp_path, status=7)
    assert "the statement is about" in ended.stderr
    planned = _appliance("reproduce", str(path), "--plan", "--trust", "local", cwd=tmp_path, home=tmp_path, status=7)
    assert (planned.stdout, "the statement is about" in planned.stderr) == ("", True)
    assert not (tmp_path / "runs").exists()


def test_a_record_may_not_ask_for_more_than_its_cap(made: Path, tmp_path: Path) -> None:
    """`--max-memory-mib` below the task's limit ends with 4, naming both (R4)."""
    record = str(made / "r/records/reference.json")
    ended = _appliance("reproduce", record, "--max-memory-mib", "64", cwd=tmp_path, home=tmp_path, status=4)
    asked = Record.read(Path(record)).plan.tasks[0].spec.limits.memory_mib
    assert f"task 'one' asks for memory_mib {asked}, and at most 64" in ended.stderr


def test_a_recorded_command_runs_nowhere_but_in_the_container(tmp_path: Path) -> None:
    """A record whose solver writes everywhere it can leaves the reproducer's folders and /tmp as they were (R4)."""
    write_suite(tmp_path / "tasks/pair", ("one",))
    mark = f"appliance-escaped-{os.getpid()}"
    script = f"touch /tmp/{mark} /{mark} {tmp_path}/{mark} ../{mark} /workspace/{mark}"
    solver = write_solver(
        tmp_path / "solvers", "writer", f'model = "none"\nargv = ["sh", "-c", {json.dumps(script)}]\n'
    )
    home = tmp_path
    _appliance("run", "--suite", "pair", "--solver", str(solver), "--out", "r", cwd=tmp_path, home=home)
    _appliance("reproduce", "r/records/writer.json", "--out", "again", cwd=tmp_path, home=home)
    assert not Path(f"/tmp/{mark}").exists()
    assert not Path(f"/{mark}").exists()
    assert not list(tmp_path.rglob(mark))
    assert not list(tmp_path.parent.glob(mark))


def test_another_solver_under_the_same_name_is_named(tmp_path: Path) -> None:
    """A solver whose TOML changed since is refused with both digests, status 3 (R1)."""
    write_suite(tmp_path / "tasks/pair", ("one",))
    solver = write_solver(tmp_path / "solvers", "tool", 'model = "none"\nargv = ["true"]\n')
    _appliance("run", "--suite", "pair", "--solver", "tool", "--out", "r", cwd=tmp_path, home=tmp_path)
    write_solver(tmp_path / "solvers", "tool", 'model = "none"\nargv = ["false"]\n')
    ended = _appliance("reproduce", "r/records/tool.json", cwd=tmp_path, home=tmp_path, status=3)
    assert "$.plan.solver.digest" in ended.stderr
    recorded = Record.read(tmp_path / "r/records/tool.json").plan.solver.digest
    assert f"has digest {recorded[:12]} in the record and {read_definition(solver).digest[:12]} here" in ended.stderr
    words = ("reproduce", "r/records/tool.json", "--solver", "./none.toml")
    ended = _appliance(*words, cwd=tmp_path, home=tmp_path, status=2)
    assert "no such file: ./none.toml" in ended.stderr
