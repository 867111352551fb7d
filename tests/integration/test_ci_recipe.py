"""The CI recipes of docs/ci, run: install, run, sign keyless and publish, against the real services on loopback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ci_bench import Runner, StepFailed, build_wheel, dependencies, run_gitlab
from tests.judges_bench import cosign
from tests.services_bench import Services
from tests.services_desk import Desk
from tests.services_issuer import PIPELINE, RUNNER_TOKEN, WORKFLOW

pytestmark = [pytest.mark.docker, pytest.mark.services, pytest.mark.slow]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services")).start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """The machine of the CI system; and, with the same home, somebody there who looks at what was published."""
    return Desk(tmp_path / "desk")


def surroundings(desk: Desk, tmp_path: Path) -> dict[str, str]:
    cache = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    packages = {"PYTHONPATH": str(dependencies(tmp_path / "dependencies")), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    return {**desk.environment, **packages, "XDG_CACHE_HOME": cache}


def github(services: Services) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "ACTIONS_ID_TOKEN_REQUEST_URL": f"{services.issuer_url('github')}/runner?api-version=2.0",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": RUNNER_TOKEN,
    }


def gitlab(services: Services) -> dict[str, str]:
    return {"GITLAB_CI": "true", "SIGSTORE_ID_TOKEN": services.token("gitlab")}


def assert_published(desk: Desk, services: Services, site: Path, kind: str, name: str) -> None:
    """One record that verifies by the job's own name, by us and by cosign, and a bundle beside it."""
    issuer = services.issuer_url(kind)
    (record,) = [path for path in (site / "records").glob("*.json") if not path.name.endswith(".sigstore.json")]
    bundle = record.with_name(f"{record.stem}.sigstore.json")
    words = ("--trust", "lab", "--identity", name, "--issuer", issuer, "--allow-missing-blobs")
    assert desk.says("verify", record, *words)["verified"]
    assert cosign(record, bundle, services.trusted_root, name, issuer) is None
    assert cosign(record, bundle, services.trusted_root, f"{name}x", issuer)


def test_the_action_runs_signs_and_publishes_by_the_workflows_name(
    services: Services, wheel: Path, desk: Desk, tmp_path: Path
) -> None:
    """Deliver 6: the shell steps of the composite action, with GitHub's ambient token."""
    temp = tmp_path / "temp"
    temp.mkdir()
    runner = Runner(desk.folder, temp, {**surroundings(desk, tmp_path), **github(services)})
    inputs = {
        "suite": "smoke",
        "solver": "noop",
        "with-suite": "false",
        "run-options": "--tasks\nenv-file\n",
        "trust": "lab",
        "trust-config": str(services.trust_config),
        "requirement": str(wheel),
    }
    runner.run(inputs)
    assert_published(desk, services, desk.folder / "published", "github", WORKFLOW)


def test_the_template_runs_signs_and_publishes_by_the_pipelines_name(
    services: Services, wheel: Path, desk: Desk, tmp_path: Path
) -> None:
    """Deliver 6: the job of the GitLab template, with GitLab's ambient token."""
    variables = {
        "BENCH_SUITE": "smoke",
        "BENCH_SOLVER": "noop",
        "BENCH_WITH_SUITE": "false",
        "BENCH_OPTIONS": "--tasks\nenv-file",
        "BENCH_TRUST": "lab",
        "BENCH_TRUST_CONFIG": str(services.trust_config),
        "BENCH_REQUIREMENT": str(wheel),
    }
    run_gitlab(desk.folder, variables, {**surroundings(desk, tmp_path), **gitlab(services)})
    assert_published(desk, services, desk.folder / "published", "gitlab", PIPELINE)


def test_without_a_token_the_run_is_kept_and_the_mend_is_named(
    services: Services, wheel: Path, desk: Desk, tmp_path: Path
) -> None:
    """A job that forgot `id_tokens` has spent its hours all the same: the record is there to be signed later."""
    variables: dict[str, Any] = {
        "BENCH_SUITE": "smoke",
        "BENCH_SOLVER": "noop",
        "BENCH_WITH_SUITE": "false",
        "BENCH_OPTIONS": "--tasks\nenv-file",
        "BENCH_TRUST": "lab",
        "BENCH_TRUST_CONFIG": str(services.trust_config),
        "BENCH_REQUIREMENT": str(wheel),
    }
    shutil.copytree(desk.folder / "run", desk.folder / ".bench/run")  # what the script's first part leaves
    with pytest.raises(StepFailed) as failed:
        run_gitlab(desk.folder, variables, {**surroundings(desk, tmp_path), "GITLAB_CI": "true"}, after=1)
    assert failed.value.status == 7
    assert "id_tokens" in failed.value.said
    assert (desk.folder / ".bench/run/records/noop.json").read_bytes() == desk.content
    assert not (desk.folder / ".bench/run/records/noop.sigstore.json").exists()
    assert not (desk.folder / "published").exists()
