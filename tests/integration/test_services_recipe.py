"""The CI recipes of docs/ci as they are written: schemas, linters, and no input that a shell would read as code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.ci_bench import FOLDER, read, scripts
from tests.services_build import ACTIONLINT, build


@pytest.mark.parametrize(
    ("schema", "name", "field"),
    [
        ("github-actions", "action.yml", "using: composite"),
        ("github-workflows", "workflow.yml", "runs-on:"),
        ("gitlab-ci", "gitlab.yml", "resource_group:"),
    ],
)
def test_a_recipe_keeps_the_schema_of_its_system(schema: str, name: str, field: str, tmp_path: Path) -> None:
    """The published schemas of GitHub and GitLab; with one field misspelt it is refused."""
    text = (FOLDER / name).read_text().replace("\n.bench-appliance:", "\nbench:")  # of a hidden job nothing is checked
    assert field in text
    for content, status in ((text, 0), (text.replace(field, f"x{field}"), 1)):
        (tmp_path / name).write_text(content)
        ended = subprocess.run(
            [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", tmp_path / name],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == status, ended.stdout


@pytest.mark.services
def test_the_example_workflow_passes_actionlint() -> None:
    """Syntax, expressions, permissions and triggers of what a publisher copies."""
    build((ACTIONLINT,))
    ended = subprocess.run([ACTIONLINT.path, FOLDER / "workflow.yml"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.services
def test_the_actions_steps_pass_actionlint_as_the_steps_of_a_job(tmp_path: Path) -> None:
    """It reads no composite action; a reusable workflow with the same inputs and steps means the same."""
    build((ACTIONLINT,))
    action = read("action.yml")
    inputs = {name: {"type": "string", "required": bool(one.get("required"))} for name, one in action["inputs"].items()}
    outputs = {name: {"value": "${{ jobs.bench.outputs.x }}"} for name in action["outputs"]}
    job = {
        "runs-on": "ubuntu-24.04",
        "outputs": {"x": action["outputs"]["run"]["value"]},
        "steps": action["runs"]["steps"],
    }
    workflow = {"on": {"workflow_call": {"inputs": inputs, "outputs": outputs}}, "jobs": {"bench": job}}

    def said(content: object) -> subprocess.CompletedProcess[str]:
        path = tmp_path / "workflow.yml"
        with path.open("w") as stream:
            YAML(typ="safe", pure=True).dump(content, stream)
        return subprocess.run([ACTIONLINT.path, path], capture_output=True, text=True, check=False)

    assert said(workflow).returncode == 0, said(workflow).stdout
    job["steps"][2]["env"]["SUITE"] = "${{ inputs.suit }}"
    assert 'property "suit" is not defined' in said(workflow).stdout


@pytest.mark.parametrize("name", scripts())
def test_no_input_becomes_code_of_a_shell(name: str) -> None:
    """An expression inside a script would be pasted into it; ours reach it as variables, each in quotes."""
    text = scripts()[name]
    assert "${{" not in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    bare = [word for word in text.replace("case $", "case ").split() if word.startswith("$")]
    assert not bare


def test_the_readme_names_every_input() -> None:
    """A publisher finds each of them explained."""
    said = (FOLDER / "README.md").read_text()
    action, job = read("action.yml"), read("gitlab.yml")[".bench-appliance"]
    assert [name for name in (*action["inputs"], *job["variables"]) if f"`{name}`" not in said] == []
