"""The built wheel in a clean environment, as a stranger has it: run, verify, report, reproduce, doubt any byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.slow]
_ROOT = Path(__file__).resolve().parents[2]


class Installed:
    """The `appliance` of the wheel, with a home of its own and a folder that is not the checkout."""

    def __init__(self, program: Path, home: Path):
        self.program = program
        self.home = home
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "XDG_", "APPLIANCE"))},
            "XDG_DATA_HOME": str(home / "share"),
            "XDG_CONFIG_HOME": str(home / "config"),
        }

    def __call__(self, *words: str, status: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [str(self.program), *words],
            cwd=cwd or self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == status, f"{words}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        assert "Traceback" not in ended.stderr
        return ended


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Built by hatchling, installed with nothing but the wheel and the locked dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(_ROOT)],
        check=True,
        capture_output=True,
    )
    wheel = next(folder.glob("*.whl"))
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--require-hashes", "-r", str(_ROOT / "requirements.lock")], check=True)
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    home = folder / "home"
    home.mkdir()
    return Installed(environment / "bin/appliance", home)


@pytest.fixture(scope="module")
def run_folder(appliance: Installed) -> Path:
    appliance("run", "--suite", "smoke", "--solver", "reference,noop", "--out", "first")
    return appliance.home / "first"


@pytest.fixture
def copied(run_folder: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "submission"
    shutil.copytree(run_folder, folder)
    yield folder


def test_the_shipped_suites_are_the_checkouts(appliance: Installed) -> None:
    """pip compiles what it installs; a suite still has the digest that the checkout gives (J03)."""
    from appliance.tasks.reader import read_suite

    listed = {suite["name"]: suite["digest"] for suite in json.loads(appliance("tasks", "list", "--json").stdout)}
    assert listed == {name: read_suite(_ROOT / "tasks" / name).digest for name in ("mix", "smoke")}


def test_reference_resolves_all_and_noop_none(appliance: Installed, run_folder: Path) -> None:
    """The ceiling and the floor of the shipped suite, from the wheel alone (J13, J14, J43)."""
    by_solver = {
        name: json.loads((run_folder / "records" / f"{name}.json").read_bytes()) for name in ("reference", "noop")
    }
    outcomes = {name: {trial["outcome"] for trial in record["trials"]} for name, record in by_solver.items()}
    assert outcomes == {"reference": {"resolved"}, "noop": {"unresolved"}}
    assert all(len(record["trials"]) >= 8 for record in by_solver.values())
    assert all(trial["energy"]["total"]["belowFloor"] for record in by_solver.values() for trial in record["trials"])


def test_both_records_verify_and_report(appliance: Installed, run_folder: Path) -> None:
    """What a run signed, `verify --trust local` accepts, and the report repeats what the run printed (J25)."""
    for name in ("reference", "noop"):
        appliance("verify", f"first/records/{name}.json", "--trust", "local")
    text = appliance("report", "first").stdout
    assert "reference" in text
    assert "(estimated)" in text


def test_a_stranger_reproduces_the_record_from_the_run_folder(appliance: Installed, copied: Path) -> None:
    """`appliance reproduce record.json`, typed in its folder, runs it again and says that it held (R1, R2)."""
    ended = appliance("reproduce", "noop.json", "--json", cwd=copied / "records")
    verdict = json.loads(ended.stdout)
    assert verdict["outcome"]["verdict"] == "reproduced"
    assert "unverified" in ended.stderr


def test_one_byte_changed_anywhere_is_refused(appliance: Installed, copied: Path) -> None:
    """A byte of record or bundle, wherever it is, ends with status 7 and a reason class."""
    drawn = random.Random(20261130)
    for name in ("noop.json", "noop.sigstore.json"):
        path = copied / "records" / name
        whole = path.read_bytes()
        for _ in range(3):
            at = drawn.randrange(len(whole))
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
            ended = appliance("verify", str(copied / "records/noop.json"), "--trust", "local", "--json", status=7)
            assert json.loads(ended.stdout), (name, at)
        path.write_bytes(whole)
    appliance("verify", str(copied / "records/noop.json"), "--trust", "local")


def test_what_was_changed_in_a_blob_is_named(appliance: Installed, copied: Path) -> None:
    """A blob that is not what its name says is refused with class `blob`."""
    record = json.loads((copied / "records/noop.json").read_bytes())
    blob = copied / "blobs/sha256" / record["journal"]["sha256"]
    blob.write_bytes(blob.read_bytes() + b" ")
    ended = appliance("verify", str(copied / "records/noop.json"), "--trust", "local", "--json", status=7)
    assert "blob" in ended.stdout
