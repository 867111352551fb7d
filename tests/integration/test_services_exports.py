"""`trust export`: the line that it prints for each program, typed as it stands by somebody who has only the files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judges_bench import offline
from tests.services_bench import Services
from tests.services_build import COSIGN, GH, build
from tests.services_desk import Desk
from tests.services_issuer import WORKFLOW

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "appliance": [sys.executable, "-m", "appliance.cli.main"],
    "sigstore": [sys.executable, "-m", "sigstore"],
    "cosign": [str(COSIGN.path)],
    "gh": [str(GH.path)],
}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services")).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def desks(services: Services, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Desk, dict[str, str]]]:
    """Somebody who signed by the local trust, and somebody whose workflow of GitHub did by a private one."""
    build((COSIGN, GH))
    own, lab = Desk(tmp_path_factory.mktemp("own") / "desk"), Desk(tmp_path_factory.mktemp("lab") / "desk")
    own.types("sign", own.record)
    token = lab.folder / "token"
    token.write_text(services.token("github"))
    lab.types("trust", "init", "--name", "lab", "--config", services.trust_config)
    lab.types("sign", lab.record, "--trust", "lab", "--identity-token", token)
    return {"local": (own, {}), "lab": (lab, {"NAME": WORKFLOW, "URL": services.issuer_url("github")})}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("trust", ["local", "lab"])
def test_the_printed_line_verifies_the_record_and_no_other(
    trust: str, program: str, desks: dict[str, tuple[Desk, dict[str, str]]], tmp_path: Path
) -> None:
    """Deliver 4: exports that sigstore, cosign and gh read; capitals are what the reader fills in. No network."""
    desk, names = desks[trust]
    out = tmp_path / "exported"
    made: dict[str, Any] = desk.says("trust", "export", "--trust", trust, "--format", program, "--out", out)
    assert made["root"] == str(out)
    changed = tmp_path / "changed.json"
    changed.write_bytes(desk.content[:-1] + b" }")

    def typed(record: Path) -> int:
        bundle = str(desk.bundle)
        known = {**names, "RECORD": str(record), "RECORD.json": str(record), "RECORD.sigstore.json": bundle}
        words = [{**known, "OWNER": "example"}.get(word, word) for word in made["command"]]
        assert words[0] == program
        beside = ["--bundle", bundle, "--allow-missing-blobs"] if program == "appliance" else []
        environment = {**desk.environment, **offline(tmp_path), "PYTHONPATH": str(ROOT)}
        argv = [*PROGRAMS[program], *words[1:], *beside]
        return subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode

    # gh takes what a workflow of GitHub's signed, and nothing else.
    assert typed(desk.record) == (1 if (trust, program) == ("local", "gh") else 0)
    assert typed(changed) == (7 if program == "appliance" else 1)
