"""A solver out of wheels: its own tree, byte code of its own, and nothing of it for the programs that it starts."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.engine.docker import connect
from appliance.errors import HostRefused
from appliance.images.archives import archive_path, read_archive
from appliance.images.build import build
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.locking import lock_image
from appliance.images.store import package_store
from tests.images_layers import layer_files

pytestmark = pytest.mark.docker
SHIPPED = Path(__file__).parents[2] / "images"
MAIN = """import subprocess, sys
import dep_of_agent
def main():
    print(dep_of_agent.WORD, *sys.argv[1:], flush=True)
    asked = "import importlib.util as u; print('leaks' if u.find_spec('dep_of_agent') else 'clean')"
    return subprocess.run(["python3", "-c", asked]).returncode
"""
SCRIPT = "#!python\nimport dep_of_agent\nprint('script', dep_of_agent.WORD)\n"


def wheel(folder: Path, name: str, files: dict[str, str]) -> None:
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, content in {
            **files,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{files.get('requires', '')}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }.items():
            if path != "requires":
                archive.writestr(path, content)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """An agent with one dependency, locked by the real pip from a folder. Base lies in the shared cache: ours goes."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    entry = {"toy_agent-1.0.dist-info/entry_points.txt": "[console_scripts]\ntoy = toy_agent:main\n"}
    script = {"toy_agent-1.0.data/scripts/toy-script": SCRIPT}
    requires = {"requires": "Requires-Dist: dep_of_agent\n"}
    wheel(wheels, "toy_agent", {"toy_agent.py": MAIN, **entry, **script, **requires})
    wheel(wheels, "dep_of_agent", {"dep_of_agent/__init__.py": "WORD = 'found'\n", "dep_of_agent/odd.py": "def ("})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    folder = tmp_path / "images" / "toy"
    folder.mkdir(parents=True)
    (folder / "image.toml").write_text(
        'kind = "solver"\nwheels = ["toy_agent==1.0"]\npython = "base"\nneeds = ["python3.11"]\n'
    )
    catalog = Catalog((tmp_path / "images", SHIPPED))
    lock_image(catalog, "toy", silent)
    yield catalog
    lock = catalog.lock("toy")
    archive_path(lock.pin.config).unlink(missing_ok=True)
    for entry in lock.entries:
        (package_store() / entry.sha256).unlink(missing_ok=True)


def silent(_: str) -> None:
    """Nobody is told."""


@pytest.fixture
def image(catalog: Catalog) -> Iterator[str]:
    library = ImageLibrary(connect(), catalog)
    pin = library.composed("c", "toy")
    yield library.ensure([pin])[pin.config]
    subprocess.run(["docker", "rmi", "-f", pin.config], capture_output=True, check=False)


def ran(image: str, *words: str, **env: str) -> str:
    given = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
    closed = ["--network=none", "--read-only", "--cap-drop=ALL", "--user=1000:1000", "--workdir=/tmp", "--tmpfs=/tmp"]
    ended = subprocess.run(
        ["docker", "run", "--rm", *closed, *given, image, *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_an_agent_of_wheels_runs_on_a_task_image_and_its_dependencies_stay_its_own(image: str) -> None:
    """On a read-only root as user 1000; neither the task's own Python nor what the agent starts sees them (M18)."""
    assert ran(image, "/opt/solvers/toy/bin/toy", "a b") == "found a b\nclean\n"
    assert ran(image, "/opt/solvers/toy/bin/toy-script") == "script found\n"
    assert ran(image, "python3", "-c", "import sys; print([p for p in sys.path if 'solvers' in p])") == "[]\n"
    assert "solvers" not in ran(image, "env")


def test_variables_and_files_of_the_task_do_not_reach_into_the_agent(image: str) -> None:
    """A `PYTHONPATH` of the task, whose modules would stand before Python's own, is for what the agent starts alone."""
    trap = "echo 'raise SystemExit(\"trapped\")' | tee /tmp/dep_of_agent.py > /tmp/subprocess.py; cd /tmp; exec "
    said = ran(image, "sh", "-c", f"{trap} /opt/solvers/toy/bin/toy", PYTHONPATH="/tmp")
    assert said == "found\nleaks\n"


def test_its_modules_have_byte_code_and_the_tree_lies_in_one_place(catalog: Catalog) -> None:
    """Compiled by the Python of the image that `python` names, unchecked by clocks (I15); built again, the same pin."""
    built = build(catalog, "toy", silent, again=True)
    assert built.pin == catalog.lock("toy").pin
    files = layer_files(read_archive(built.archive))
    assert {name for name in files if not name.startswith("opt/solvers/toy/")} == set()
    compiled = files["opt/solvers/toy/lib/python/dep_of_agent/__pycache__/__init__.cpython-311.pyc"].content
    assert compiled[4:8] == b"\x01\0\0\0"
    assert not [name for name in files if "odd" in name and name.endswith(".pyc")]
    assert [tool.name for tool in catalog.lock("toy").tools] == ["base"]


def test_one_wheel_that_is_gone_does_not_keep_the_others_from_coming(catalog: Catalog, tmp_path: Path) -> None:
    """All are asked for in one go; the one that no index has is named, the rest is here (I7)."""
    agent, dependency = sorted(catalog.lock("toy").entries, key=lambda entry: entry.name, reverse=True)
    for entry in (agent, dependency):
        (package_store() / entry.sha256).unlink()
    (tmp_path / "wheels" / dependency.path).unlink()
    with pytest.raises(HostRefused, match=r"1 locked packages are in no source any more: wheel dep-of-agent 1\.0"):
        build(catalog, "toy", silent, again=True)
    assert (package_store() / agent.sha256).is_file()
