"""`appliance run` as a person types it: what it says, what it leaves, and what its status means."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.records.journal import InterruptedLine, TrialLine
from appliance.records.record import Record
from tests.trials_bench import left_of, lines
from tests.trials_suites import write_solver
from tests.typed_runs import WAITS, run_id, said_by, started, there_with_two_tasks, until, waiting_container

pytestmark = pytest.mark.docker
FIX = "printf '#!/bin/sh\\nexit 0\\n' > program.sh"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a suite of two tasks, and homes of its own."""
    for name in ("APPLIANCE_VERSION", "APPLIANCE_COMMIT", "ZERO_BENCH_VERSION", "ZERO_BENCH_COMMIT"):
        monkeypatch.delenv(name, raising=False)
    return there_with_two_tasks(tmp_path, monkeypatch)


def appliance(there: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli.main", *words], cwd=there, capture_output=True, text=True, check=False
    )


def test_a_run_is_signed_reported_and_can_be_rendered_again(there: Path) -> None:
    """The report at the end equals `appliance report` over the folder, byte for byte; what verifies it is said (J24,
    J25); the estimate comes first (H16).
    """
    ran = appliance(there, "run", "--suite", "small", "--solver", "reference,noop", "--out", "r")
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("trials:")
    again = appliance(there, "report", "r")
    assert ran.stdout == again.stdout
    for name in ("reference", "noop"):
        assert (there / "r" / "records" / f"{name}.sigstore.json").is_file()
        verified = appliance(there, "verify", f"r/records/{name}.json", "--trust", "local")
        assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "appliance verify r/records/noop.json --trust local" in ran.stderr


def test_a_finished_run_resumed_by_its_folder_alone_starts_nothing(there: Path) -> None:
    """H21."""
    first = appliance(there, "run", "--suite", "small", "--solver", "noop", "--out", "r", "--no-sign")
    assert first.returncode == 0, first.stderr
    before = (there / "r" / "records" / "noop.json").read_bytes()
    again = appliance(there, "run", "--resume", "r", "--no-sign")
    assert again.returncode == 0, again.stderr
    assert "nothing was left to run" in again.stderr
    assert (there / "r" / "records" / "noop.json").read_bytes() == before
    other = appliance(there, "run", "--resume", "r", "--suite", "small", "--solver", "noop", "--rollouts", "2")
    assert other.returncode == 2
    assert "rollouts: 1, now 2" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_a_dry_run_of_a_resume_says_what_is_left_and_leaves_it(there: Path) -> None:
    """How far it has come, and what flags of another run differ in, before anything starts (H22, H16)."""
    first = appliance(
        there, "run", "--suite", "small", "--solver", "noop", "--rollouts", "2", "--out", "r", "--no-sign"
    )
    assert first.returncode == 0, first.stderr
    journal = there / "r" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    second = next(at for at, text in enumerate(lines) if json.loads(text).get("trial") == 1)
    journal.write_bytes(b"".join(lines[:second]))
    again = appliance(there, "run", "--resume", "r", "--dry-run", "--json")
    assert again.returncode == 0, again.stderr
    come = json.loads(again.stdout)["resumed"]
    total = json.loads(again.stdout)["estimate"]["trials"]
    assert come["finished"] == 1
    assert len(come["left"]) == total - 1
    assert come["left"][0]["solver"] == "noop"
    told = appliance(there, "run", "--resume", "r", "--dry-run").stdout
    assert f"resumed: 1 of {total} are finished, {total - 1} left: noop " in told
    # Rollouts were not said again: they are the plan's.
    other = appliance(there, "run", "--resume", "r", "--dry-run", "--limit-pids", "77")
    assert other.returncode == 2
    assert "limitOverrides.pids: None, now 77" in other.stderr
    assert "rollouts" not in other.stderr
    assert journal.read_bytes() == b"".join(lines[:second])


def test_a_dry_run_prints_the_plan_and_starts_nothing(there: Path) -> None:
    """Not a container, not a folder; --json is one document."""
    ran = appliance(there, "run", "--suite", "small", "--solver", "noop", "--rollouts", "3", "--dry-run", "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert document["estimate"]["trials"] == 6
    assert document["plan"]["plans"][0]["rollouts"] == 3
    assert not (there / "runs").exists()


def test_json_is_exactly_one_document_and_everything_else_goes_to_standard_error(there: Path) -> None:
    """design 8; the stamps are those of the flags (decisions, Stamps)."""
    words = ("--version", "1.2", "--commit", "abc", "--no-suite-blob", "--limit-wall-seconds", "30")
    ran = appliance(there, "run", "--suite", "small", "--solver", "noop", "--no-sign", "--json", "--tasks", "a", *words)
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    record = Record.read(there / document["records"][0]["path"])
    assert (record.version, record.commit, record.solver.source) == ("1.2", "abc", "flag")
    assert record.suite.archive is None
    assert record.plan.limit_overrides == {"wall_seconds": 30.0}
    assert record.plan.filtered == ("b",)
    assert document["records"][0]["bundle"] is None


def test_one_file_is_written_whole_with_the_run_folder_beside_it(there: Path) -> None:
    """--out X.json (J24)."""
    ran = appliance(there, "run", "--suite", "small", "--solver", "noop", "--no-sign", "--out", "deep/x.json")
    assert ran.returncode == 0, ran.stderr
    assert (there / "deep" / "x.json").read_bytes() == (there / "deep" / "x" / "records" / "noop.json").read_bytes()
    assert ran.stdout == appliance(there, "report", "--results", "deep/x.json").stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--suite", "nosuch", "--solver", "noop"), 2, "small"),
        (("--suite", "small", "--solver", "nosuch"), 2, "noop, "),
        (("--suite", "small", "--solver", "noop,noop"), 2, "twice"),
        (("--suite", "small"), 2, "--solver"),
        (("--solver", "noop"), 2, "--suite"),
        (("--suite", "small", "--solver", "noop", "--rollouts", "0"), 2, "rollouts"),
        (("--suite", "small", "--solver", "noop", "--rollouts", "x"), 2, "rollouts"),
        (("--suite", "small", "--solver", "noop", "--mode", "plan"), 2, "--mode"),
        (("--suite", "small", "--solver", "noop", "--tasks", "zz"), 2, "--tasks"),
        (("--suite", "small", "--solver", "noop", "--limit-memory-mib", "1"), 2, "--limit-memory-mib"),
        (("--suite", "small", "--solver", "noop", "--challenge", "nowhere"), 3, "nowhere"),
        (("--resume", "nowhere"), 2, "holds no run"),
        (("--suite", "small", "--solver", "noop", "--energy", "measured"), 6, "NoCounter"),
        (("--suite", "small", "--solver", "noop", "--limit-disk-mib", "8000000"), 4, "MiB"),
    ],
)
def test_what_cannot_be_done_is_said_in_words_before_anything_starts(
    there: Path, words: tuple[str, ...], status: int, says: str
) -> None:
    """J04, J26, J34, H16: no traceback, the status of whose move it is, no folder left."""
    ran = appliance(there, "run", *words)
    assert ran.returncode == status, ran.stderr
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (there / "runs").exists() or not list((there / "runs").rglob("journal.jsonl"))


def test_errored_trials_end_with_status_five_and_the_record_is_written(there: Path) -> None:
    """design 7."""
    write_solver(there / "solvers", "absent", 'model = "none"\nargv = ["no-such-program"]\n')
    ran = appliance(there, "run", "--suite", "small", "--solver", "absent", "--out", "r", "--no-sign")
    assert ran.returncode == 5, ran.stderr
    record = Record.read(there / "r" / "records" / "absent.json")
    assert [trial.reason for trial in record.trials] == ["start_failed"] * 2


def test_a_shell_finds_what_the_solver_left(there: Path) -> None:
    """Pristine tree and diff in a fresh container, as the solver's user; removed on exit (design 8)."""
    write_solver(
        there / "solvers", "tool", f'model = "none"\nargv = ["sh", "-c", {json.dumps(f"{FIX}; echo x > new")}]\n'
    )
    ran = appliance(there, "run", "--suite", "small", "--solver", "tool,noop", "--out", "r", "--no-sign")
    assert ran.returncode == 0, ran.stderr
    looked = appliance(
        there, "shell", "--solver", "tool", "r", "b", "sh", "-c", "cat program.sh new; id -u; pwd; exit 3"
    )
    assert looked.returncode == 3, looked.stderr
    assert looked.stdout == "#!/bin/sh\nexit 0\nx\n1000\n/workspace\n"
    assert "tool on b, pass 0, rollout 0: resolved" in looked.stderr
    unsaid = appliance(there, "shell", "r", "b", "true")
    assert unsaid.returncode == 2
    assert "--solver, one of: noop, tool" in unsaid.stderr
    nowhere = appliance(there, "shell", "--solver", "tool", "r", "zz", "true")
    assert nowhere.returncode == 2
    assert "a, b" in nowhere.stderr


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        ((signal.SIGINT,), 130),
        ((signal.SIGINT, signal.SIGINT), 130),
        ((signal.SIGTERM,), 143),
        ((signal.SIGKILL,), -9),
    ],
)
def test_whatever_stops_a_run_nothing_of_it_stays_and_it_can_be_resumed(
    there: Path, numbers: tuple[int, ...], status: int
) -> None:
    """Containers, volumes, mounts, cgroups and folders are gone; what had finished is kept, and the rest is run by
    --resume (H12, H13, H22).
    """
    solver = f'[ "$(cat /run/appliance/prompt.txt)" = "mend a" ] || {WAITS}; {FIX}'
    write_solver(there / "solvers", "slow", f'model = "none"\nargv = ["sh", "-c", {json.dumps(solver)}]\n')
    words = ["run", "--suite", "small", "--solver", "slow", "--out", "r", "--no-sign"]
    process = started(there, *words)
    try:
        run = until(lambda: _run_with_sleeping_solver(there))
        for number in numbers:
            os.kill(process.pid, number)
            time.sleep(0.05)
        said = said_by(process)
    finally:
        process.kill()
    assert process.returncode == status, said
    until(lambda: not left_of(run))
    kept = [line for line in lines(there / "r") if isinstance(line, TrialLine)]
    assert [(line.trial, line.result.outcome) for line in kept] == [(0, "resolved")]
    if numbers == (signal.SIGINT,):
        assert "--resume r" in said
        cut = [line for line in lines(there / "r") if isinstance(line, InterruptedLine)]
        assert [line.trial for line in cut] == [1]
        assert not Record.read(there / "r" / "records" / "slow.json").complete
    again = appliance(there, *words[:-3], "--resume", "r", "--no-sign", "--limit-wall-seconds", "2")
    assert again.returncode == 2
    resumed = started(there, "run", "--resume", "r", "--no-sign")
    try:
        container = until(lambda: waiting_container(run) or ("none" if resumed.poll() is not None else None))
        assert resumed.poll() is None, resumed.communicate()[1]
        subprocess.run(["docker", "exec", container, "touch", "/tmp/go"], check=True)
        said = said_by(resumed)
    finally:
        resumed.kill()
    assert resumed.returncode == 0, said
    record = Record.read(there / "r" / "records" / "slow.json")
    assert [trial.outcome for trial in record.trials] == ["resolved", "resolved"]
    assert left_of(run) == []


def _run_with_sleeping_solver(there: Path) -> str | None:
    """The run's id, once its second trial's solver sleeps and its first has ended."""
    run = run_id(there / "r")
    ended = run and b'"kind":"trial"' in (there / "r" / "journal.jsonl").read_bytes()
    return run if run and ended and waiting_container(run) else None


def _local(there: Path) -> Path:
    return there / "data" / "bench-appliance" / "trust" / "local"


def _another_root(there: Path) -> None:
    known = there / "config" / "bench-appliance" / "roots.toml"
    known.parent.mkdir(parents=True)
    entry = {"name": "local", "path": str(there / "theirs.json"), "sha256": "0" * 64, "assurance": "local"}
    known.write_text("[[root]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items()))


def _spoiled(spoil: Callable[[Path], object]) -> Callable[[Path], None]:
    def spoiled(there: Path) -> None:
        assert appliance(there, "trust", "init").returncode == 0
        spoil(_local(there))

    return spoiled


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_another_root, "'local' already names another root"),
        (_spoiled(lambda local: local.chmod(0o755)), "others may look into it"),
        (_spoiled(lambda local: (local / "keys/tsa.pem").chmod(0o644)), "a private key that others may read"),
        (_spoiled(lambda local: (local / "keys/oidc.pem").unlink()), "oidc.pem: No such file"),
        (_spoiled(lambda local: (local / "log/head.json").write_text("{}")), "not the head of a log"),
        (_spoiled(lambda local: (local / "log/entries.jsonl").unlink()), "entries.jsonl: not there"),
    ],
    ids=["another root", "open folder", "open key", "no key", "no head", "no log"],
)
def test_a_machine_that_cannot_sign_says_so_before_the_first_trial(
    there: Path, spoil: Callable[[Path], None], said: str
) -> None:
    """Status 7 in one line with nothing begun or made, not after hours of trials."""
    spoil(there)
    before = sorted((there / "data").rglob("*"))
    ran = appliance(there, "run", "--suite", "small", "--solver", "noop", "--out", "r")
    assert ran.returncode == 7, ran.stderr
    assert said in ran.stderr
    assert not (there / "r").exists()
    assert sorted((there / "data").rglob("*")) == before


def test_a_record_that_could_not_be_signed_is_kept_and_can_be_signed_later(there: Path) -> None:
    """Status 7 with the command for it; what was measured is not lost, nor is the file that was asked for."""
    write_solver(there / "solvers", "slow", f'model = "none"\nargv = {json.dumps(["sh", "-c", WAITS])}\n')
    assert appliance(there, "trust", "init").returncode == 0
    words = ("--suite", "small", "--solver", "slow", "--tasks", "a", "--limit-wall-seconds", "3")
    process = started(there, "run", *words, "--out", "r.json")
    until(lambda: (run := run_id(there / "r")) and waiting_container(run))
    head = _local(there) / "log" / "head.json"
    kept = head.read_bytes()
    head.write_bytes(b"{}")
    said = said_by(process)
    assert process.returncode == 7, said
    assert "appliance sign r/records/slow.json" in said
    assert Record.read(there / "r/records/slow.json").complete
    assert (there / "r.json").read_bytes() == (there / "r/records/slow.json").read_bytes()
    head.write_bytes(kept)
    assert appliance(there, "sign", "r/records/slow.json").returncode == 0


def test_a_signed_run_resumed_when_nothing_is_left_needs_no_key(there: Path) -> None:
    """There is nothing to sign (H21)."""
    first = appliance(there, "run", "--suite", "small", "--solver", "noop", "--out", "r")
    assert first.returncode == 0, first.stderr
    (_local(there) / "keys/oidc.pem").chmod(0o644)
    again = appliance(there, "run", "--resume", "r")
    assert again.returncode == 0, again.stderr
    assert "nothing was left to run" in again.stderr
