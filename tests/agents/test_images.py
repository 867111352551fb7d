"""The agents' own images: each program starts, offline and unprivileged, on images of two languages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.docker import connect
from appliance.images.archives import held
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.sbom import bill_of_materials
from appliance.images.solver_version import locked_version
from appliance.ports import ContainerSpec, ExecSpec, Mount
from appliance.tasks.model import Limits
from tests.images_layers import layer_names

pytestmark = pytest.mark.agents
CATALOG = Catalog((Path(__file__).parents[2] / "images",))
PROGRAMS = {
    "mini-swe-agent": ("mini", "--help"),
    "claude": ("claude", "--version"),
    "codex": ("codex", "--version"),
    "gemini": ("gemini", "--version"),
    "qwen": ("qwen", "--version"),
    "opencode": ("opencode", "--version"),
    "aider": ("aider", "--version"),
}


@pytest.fixture(params=sorted(PROGRAMS))
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["base", "c"])
def image(request: pytest.FixtureRequest, agent: str) -> Iterator[str]:
    """The agent's layers on a task's image, in the engine."""
    library = ImageLibrary(connect(), CATALOG)
    pin = library.composed(str(request.param), agent)
    yield library.ensure([pin])[pin.config]
    subprocess.run(["docker", "rmi", "--force", pin.config], capture_output=True, check=False)


def test_an_agent_starts_offline_as_user_1000_on_a_read_only_root(agent: str, image: str) -> None:
    """In a container as trials get it, HOME on a tmpfs; it says the version that its lock has (M18, formats 3)."""
    engine = connect()
    workspace = Mount("tmpfs", "", "/workspace", options="rw,nosuid,nodev,size=64m,uid=1000,gid=1000,mode=0755")
    spec = ContainerSpec(
        image=image,
        role="solver",
        labels={},
        limits=Limits(),
        network="none",
        cgroup_parent=None,
        mounts=(workspace,),
    )
    program, asked = PROGRAMS[agent]
    container = engine.create(spec)
    try:
        engine.start(container)
        said = engine.execute(container, ExecSpec((f"/opt/solvers/{agent}/bin/{program}", asked), timeout_seconds=120))
    finally:
        engine.remove(container)
    words = (said.stdout.kept + said.stderr.kept).decode("utf-8", "replace")
    assert said.exit == 0, words
    version = locked_version(agent, CATALOG)
    assert version is not None
    assert version in words


def test_all_of_an_agent_lies_in_its_own_tree_and_changes_no_variable(agent: str) -> None:
    """What a task's own programs find on PATH and import is the task's (M18, formats 2)."""
    ImageLibrary(connect(), CATALOG).composed("base", agent)
    built = held(CATALOG.lock(agent).pin)
    assert built is not None
    elsewhere = {name for name in layer_names(built) if not name.startswith(f"opt/solvers/{agent}/")}
    assert elsewhere == {"opt", "opt/solvers", f"opt/solvers/{agent}"}
    assert built.settings["Env"] == []


def test_a_bill_of_materials_says_whether_an_image_may_be_passed_on(agent: str) -> None:
    """Claude Code is proprietary: a recipe installs it, the image with it is not redistributed (I13; agent table)."""
    bill = bill_of_materials(CATALOG.lock(agent), CATALOG.recipe(agent))
    said = {one["name"]: one["value"] for one in bill["metadata"]["properties"]}
    assert said == {"bench-appliance:redistributable": "false" if agent == "claude" else "true"}
