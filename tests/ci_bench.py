"""The CI recipes of docs/ci as their systems run them: the shell steps, in order, with the variables of the system."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "docs" / "ci"
_EXPRESSION: Final = re.compile(r"\$\{\{\s*([a-z0-9_.-]+)\s*\}\}")


class StepFailed(Exception):
    def __init__(self, name: str, status: int, said: str):
        super().__init__(f"{name}: status {status}\n{said}")
        self.status = status
        self.said = said


def read(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(FOLDER / name)


def scripts() -> dict[str, str]:
    """Every shell text of both recipes, by its name."""
    steps = {f"action: {step['name']}": step["run"] for step in read("action.yml")["runs"]["steps"] if "run" in step}
    job = read("gitlab.yml")[".bench-appliance"]
    parts = {f"gitlab: {part} {at}": text for part in ("before_script", "script") for at, text in enumerate(job[part])}
    return {**steps, **parts}


@dataclass
class Runner:
    """Of GitHub Actions: `work` is the checkout's folder, `temp` the job's."""

    work: Path
    temp: Path
    environment: Mapping[str, str]
    outputs: dict[str, str] = field(default_factory=dict)

    def run(self, inputs: Mapping[str, str]) -> None:
        """Every shell step of the composite action. Raises StepFailed at the first that fails."""
        action = read("action.yml")
        given = {name: inputs.get(name, one.get("default")) for name, one in action["inputs"].items()}
        assert all(value is not None for value in given.values()), "an input that is required is missing"
        assert set(inputs) <= set(given)
        known = {f"inputs.{name}": value for name, value in given.items()}
        for step in action["runs"]["steps"]:
            if "run" in step:
                self.step(step, known)

    def step(self, step: Mapping[str, Any], known: Mapping[str, str]) -> None:
        path_file, output_file = self.temp / "path", self.temp / "output"
        path_file.touch()
        output_file.write_text("")
        values = {**known, **self.outputs}
        own = {name: _EXPRESSION.sub(lambda found: values[found[1]], str(text)) for name, text in step["env"].items()}
        added = ":".join(reversed(path_file.read_text().split()))
        environment = {
            **self.environment,
            "PATH": f"{added}:{self.environment['PATH']}" if added else self.environment["PATH"],
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_PATH": str(path_file),
            "GITHUB_OUTPUT": str(output_file),
            **own,
        }
        assert step["shell"] == "bash"
        # As the runner starts what says `shell: bash`.
        _bash(step["name"], ["--noprofile", "--norc", "-eo", "pipefail"], step["run"], self.work, environment)
        for line in output_file.read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"steps.{step['id']}.outputs.{name}"] = value


def run_gitlab(work: Path, variables: Mapping[str, str], environment: Mapping[str, str], *, after: int = 0) -> None:
    """The job's lines in one shell, as GitLab's runner does; `after` the first so many of its script. Raises
    StepFailed."""
    job = read("gitlab.yml")[".bench-appliance"]
    assert set(variables) <= set(job["variables"])
    assert job["id_tokens"] == {"SIGSTORE_ID_TOKEN": {"aud": "sigstore"}}
    lines = "\n".join([*job["before_script"], *job["script"][after:]])
    whole = {**environment, "CI_PROJECT_DIR": str(work), **job["variables"], **variables}
    _bash("job", ["--noprofile", "--norc", "-eo", "pipefail"], lines, work, whole)


def build_wheel(folder: Path) -> Path:
    """What an index would offer by the name."""
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT],
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


def dependencies(folder: Path) -> Path:
    """What the wheel needs, as this environment has it; for PYTHONPATH, beside `PIP_NO_DEPS`."""
    folder.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.lower().lstrip("_").startswith(("bench_appliance", "pip")):
            (folder / entry.name).symlink_to(entry)
    return folder


def _bash(name: str, words: list[str], text: str, work: Path, environment: Mapping[str, str]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".sh") as script:
        script.write(text)
        script.flush()
        ended = subprocess.run(
            ["bash", *words, script.name],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if ended.returncode:
        raise StepFailed(name, ended.returncode, f"{ended.stdout}\n{ended.stderr}")
