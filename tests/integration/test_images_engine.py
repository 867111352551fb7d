"""Images in a real engine: looked up by content, loaded, rebuilt, composed; tags never trusted."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.bundle import cache_home
from appliance.engine.docker import connect
from appliance.errors import HostRefused, UsageRefused
from appliance.images import archives
from appliance.images.builder.oci import reference
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.store import package_store
from appliance.pins import Pin
from appliance.records.plan import PlannedImages, PlannedTask
from tests.images_small import Shelf, deb, small_packages, small_shelf
from tests.trials_suites import small_suite

SHIPPED = Catalog((Path(__file__).parents[2] / "images",))
pytestmark = pytest.mark.docker


def docker(*words: str, stdin: bytes | None = None) -> str:
    return subprocess.run(["docker", *words], input=stdin, capture_output=True, check=True).stdout.decode().strip()


def files_of(image: str) -> dict[str, tarfile.TarInfo]:
    """What a container of the image has, without running anything in it."""
    container = docker("create", "--network=none", image, "/none")
    try:
        exported = subprocess.run(["docker", "export", container], capture_output=True, check=True).stdout
    finally:
        docker("rm", "-f", container)
    with tarfile.open(fileobj=io.BytesIO(exported)) as tar:
        return {member.name: member for member in tar}


class Bench:
    """A library over the real engine and a shelf of small images; told steps are kept."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf
        self.steps: list[str] = []
        self.engine = connect()
        self.library = ImageLibrary(self.engine, shelf.catalog, self.steps.append)
        self.made: list[str] = []

    @property
    def pin(self) -> Pin:
        return self.library.pin("small")[0]

    def ensure(self, *pins: Pin) -> list[str]:
        found = self.library.ensure(pins)
        self.made += found.values()
        return [found[pin.config] for pin in pins]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # Its own content, and so its own digests, in every test: the engine is shared and remembers.
    own = deb("hello-file", "1.0", [("usr/share/hello", str(tmp_path).encode())])
    shelf = small_shelf(tmp_path / "images")
    shelf.lock("small", {**small_packages(), "hello-file": own})
    bench = Bench(shelf)
    yield bench
    for image in dict.fromkeys(reversed(bench.made)):
        subprocess.run(["docker", "image", "rm", "-f", image], capture_output=True, check=False)


def test_an_image_is_found_by_the_digest_that_was_known_before_it_was_loaded(bench: Bench) -> None:
    """On this engine's store the id is the config digest; the layers are the pin's (I3, I4)."""
    assert bench.engine.resolve(bench.pin) is None
    [found] = bench.ensure(bench.pin)
    assert found == bench.pin.config
    assert docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", found) == f'["{bench.pin.diff_ids[0]}"]'


def test_an_image_is_taken_from_the_engine_then_the_cache_then_the_lock_and_then_refused(bench: Bench) -> None:
    """Each only where the one before lacks it (I6)."""
    archive = archives.archive_path(bench.pin.config)
    bench.ensure(bench.pin)
    assert bench.steps == [f"loading {bench.pin.config[:19]}"]

    archive.unlink()
    bench.steps.clear()
    bench.ensure(bench.pin)
    assert bench.steps == []

    docker("image", "rm", "-f", bench.pin.config)
    bench.ensure(bench.pin)
    assert bench.steps == ["building small from 2 packages", f"loading {bench.pin.config[:19]}"]

    docker("image", "rm", "-f", bench.pin.config)
    pin = bench.pin
    archive.unlink()
    shutil.rmtree(bench.shelf.root)
    with pytest.raises(HostRefused, match=f"1 images cannot be had: {pin.config}: in neither the engine nor the cache"):
        bench.library.ensure([pin])


def test_a_damaged_archive_is_built_again_and_never_run(bench: Bench) -> None:
    """The engine refuses layers that are not the configuration's; the lock makes them anew (I6)."""
    archive = archives.archive_path(bench.pin.config)
    content = archive.read_bytes()
    at = content.index(b"usr/share/hello")
    archive.write_bytes(content[:at] + b"X" + content[at + 1 :])
    assert bench.ensure(bench.pin) == [bench.pin.config]
    assert any("building small again" in step for step in bench.steps)
    assert archive.read_bytes() == content


def test_a_tag_of_ours_on_other_layers_is_never_taken(bench: Bench) -> None:
    """Somebody's image under our name is passed by: only digests count (I5)."""
    tag = reference("small", bench.pin.config)
    other = docker("import", "-", tag, stdin=_tar("usr/share/hello", b"evil\n"))
    bench.made.append(other)
    assert bench.engine.resolve(bench.pin) is None
    [found] = bench.ensure(bench.pin)
    assert found == bench.pin.config != other


def test_an_archive_that_holds_another_image_under_its_name_is_not_loaded(bench: Bench) -> None:
    """The cache is believed by content: a renamed archive is passed by and the image built (I5)."""
    pin = bench.pin
    bench.shelf.define("other", 'packages = ["hello-file", "base-passwd"]\n')
    other = bench.shelf.lock("other", small_packages()).pin
    shutil.copyfile(archives.archive_path(other.config), archives.archive_path(pin.config))
    assert bench.ensure(pin) == [pin.config]
    assert bench.steps[0] == "building small from 2 packages"


def _tar(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        item = tarfile.TarInfo(name)
        item.size = len(content)
        tar.addfile(item, io.BytesIO(content))
    return out.getvalue()


def test_a_users_own_image_is_pinned_by_digest_and_said_not_to_be_rebuildable(bench: Bench) -> None:
    """Whatever the engine holds may be used; once pinned, the cache can give it back (I11)."""
    own = docker("import", "-", stdin=_tar("own", os.urandom(20)))
    bench.made.append(own)
    pin, rebuildable = bench.library.pin(own)
    assert (pin.config, rebuildable) == (own, False)
    assert bench.library.pin(bench.pin.config) == (bench.pin, True)
    docker("image", "rm", "-f", own)
    assert bench.ensure(pin) == [own]


def test_a_digest_that_nobody_has_is_refused(bench: Bench) -> None:
    """Status 4 with the mend; nothing is pulled (I11)."""
    with pytest.raises(HostRefused, match=r"the engine has no image sha256:0{64}"):
        bench.library.pin(f"sha256:{0:064x}")


def _checkout(root: Path, umask: int, clock: int) -> Path:
    (root / "deep/er").mkdir(parents=True)
    (root / "a.txt").write_text("a\n")
    (root / "deep/er/run").write_text("#!/bin/sh\n")
    (root / "deep/er/run").chmod(0o777 & ~umask)
    (root / "a.txt").chmod(0o666 & ~umask)
    (root / "link").symlink_to("deep/er/run")
    for path in (*root.rglob("*"), root):
        os.utime(path, (clock, clock), follow_symlinks=False)
    return root


def test_two_checkouts_of_a_tree_make_the_same_image_whatever_their_clocks_and_modes(
    bench: Bench, tmp_path: Path
) -> None:
    """One layer over the base, without a build; the tree lies there with its owner (I10)."""
    one = bench.library.with_tree("small", _checkout(tmp_path / "one", 0o022, 10**9), "opt/solvers/x", owner=1000)
    two = bench.library.with_tree("small", _checkout(tmp_path / "two", 0o077, 10**9 + 5), "opt/solvers/x", owner=1000)
    assert one == two
    assert one.diff_ids[:-1] == bench.pin.diff_ids
    [found] = bench.ensure(one)
    files = files_of(found)
    assert files["opt/solvers/x/deep/er/run"].mode & 0o7777 == 0o755
    assert files["opt/solvers/x/a.txt"].mode & 0o7777 == 0o644
    assert files["opt/solvers/x/link"].linkname == "deep/er/run"
    assert (files["opt/solvers/x/a.txt"].uid, files["opt/solvers"].uid, files["opt/solvers"].mode & 0o7777) == (
        1000,
        0,
        0o755,
    )
    assert "usr/share/hello" in files


def test_fifty_megabytes_in_five_thousand_files_become_a_layer(bench: Bench, tmp_path: Path) -> None:
    """No time is asserted; it is printed (I10 speaks of about a second)."""
    tree = tmp_path / "tree"
    for number in range(50):
        (tree / f"d{number}").mkdir(parents=True)
        for each in range(100):
            (tree / f"d{number}/f{each}").write_bytes(os.urandom(10_000))
    began = time.monotonic()
    pin = bench.library.with_tree("small", tree, "srv/tree")
    sys.stderr.write(f"50 MB in 5,000 files: {time.monotonic() - began:.2f} s\n")
    assert len(pin.diff_ids) == 2


@pytest.fixture
def solver(bench: Bench) -> str:
    text = 'kind = "solver"\nfiles = [{source = "run", target = "opt/solvers/toy/bin/run", executable = true}]\n'
    bench.shelf.define("toy", text + '[env]\nTOY = "1"\nPATH = "/evil"\n')
    bench.shelf.lock("toy", {}, files={"opt/solvers/toy/bin/run": ("run", b"#!/bin/sh\n")})
    return "toy"


def test_a_trials_image_is_the_tasks_with_the_solvers_layers_and_the_tasks_has_none(bench: Bench, solver: str) -> None:
    """Composed without a build, the same pin every time; grading runs on the task's image alone (I26)."""
    composed = bench.library.composed("small", solver)
    assert composed == bench.library.composed("small", solver)
    assert composed.diff_ids == (*bench.pin.diff_ids, *bench.library.pin(solver)[0].diff_ids)
    task, whole = bench.ensure(bench.pin, composed)
    assert "opt/solvers/toy/bin/run" in files_of(whole)
    assert not [name for name in files_of(task) if name.startswith("opt/solvers")]
    env = docker("image", "inspect", "-f", '{{join .Config.Env " "}}', whole).split()
    assert "TOY=1" in env
    assert "PATH=/evil" not in env


def test_without_solver_layers_the_composed_image_is_the_tasks(bench: Bench) -> None:
    """reference and noop need none (I26)."""
    assert bench.library.composed("small", None) == bench.pin


def test_a_composed_image_is_made_again_by_another_process_from_its_pin(bench: Bench, solver: str) -> None:
    """A run that is resumed, or reproduced, has only pins (I6, I26)."""
    composed = bench.library.composed("small", solver)
    fresh = ImageLibrary(connect(), bench.shelf.catalog)
    found = fresh.ensure([composed])
    bench.made += [*found.values(), bench.pin.config]
    assert found == {composed.config: composed.config}


def test_a_stranger_composes_from_what_the_plan_says_of_the_parts(bench: Bench, solver: str, tmp_path: Path) -> None:
    """Whoever reproduces a record never composed its image before: both parts stand in the plan (I6, I26)."""
    composed = bench.library.composed("small", solver)
    shutil.rmtree(cache_home() / "compositions")
    with pytest.raises(HostRefused, match="in neither the engine nor the cache"):
        bench.ensure(composed)
    images = PlannedImages(task=bench.pin, solver=bench.library.pin(solver)[0], composed=composed, rebuildable=True)
    planned = PlannedTask(spec=small_suite(tmp_path / "suite").tasks[0].spec, images=images)
    found = bench.library.ensure([composed], [planned])
    bench.made += [*found.values(), bench.pin.config]
    assert found == {composed.config: composed.config}


def test_a_thin_archive_goes_only_where_the_task_image_is_seen_present(bench: Bench, solver: str) -> None:
    """The base is asked for first and loaded where it lacks; a layer's files are never missing (I10)."""
    composed = bench.library.composed("small", solver)
    assert bench.engine.resolve(bench.pin) is None
    [found] = bench.ensure(composed)
    bench.made.append(bench.pin.config)
    assert bench.engine.resolve(bench.pin) == bench.pin.config
    assert "usr/share/hello" in files_of(found)


def test_a_task_image_is_no_solver(bench: Bench) -> None:
    """Composing takes the layers of a solver's image (status 2)."""
    with pytest.raises(UsageRefused, match="is a task image"):
        bench.library.composed("small", "small")


@pytest.mark.podman
def test_podman_finds_the_same_archive_by_the_same_digest(bench: Bench) -> None:
    """By config digest, with the pin's layers (I3)."""
    archive = archives.archive_path(bench.pin.config)
    # Short: podman refuses a runroot of more than fifty characters.
    home = tempfile.mkdtemp(prefix="pod.")
    where = ["podman", "--root", f"{home}/root", "--runroot", f"{home}/run", "--storage-driver=vfs"]
    try:
        subprocess.run([*where, "load", "-i", str(archive)], check=True, capture_output=True)
        asked = [*where, "image", "inspect", "--format", "{{.Id}} {{.RootFS.Layers}}", bench.pin.config[7:]]
        said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()
    finally:
        subprocess.run([*where, "system", "reset", "-f"], capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)
    assert said == [bench.pin.config[7:], f"[{bench.pin.diff_ids[0]}]"]


HELLO = {
    "base": [
        "printf 'def test_hi():\\n    print(\"hello\")\\n' > test_a.py",
        "python3 -m pytest -q -s test_a.py",
        "git init -q .",
    ],
    "c": [
        "printf '#include <stdio.h>\\nint main(void) { puts(\"hello\"); return 0; }\\n' > a.c",
        "printf 'a: a.c\\n\\tcc -Wall -O2 -o a a.c\\n' > Makefile",
        "make -s",
        "./a",
    ],
    "node": [
        'node -e \'console.log("hello"); if (+process.versions.node.split(".")[0] < 20) process.exit(1)\'',
        "npm --version",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HELLO))
def test_a_hello_world_of_its_language_runs_in_every_shipped_image(name: str) -> None:
    """As user 1000, without a network, on a read-only root: what a trial has (I12)."""
    library = ImageLibrary(connect(), SHIPPED)
    pin, rebuildable = library.pin(name)
    image = library.ensure([pin])[pin.config]
    assert rebuildable
    options = [
        "--rm",
        "--network=none",
        "--read-only",
        "--cap-drop=ALL",
        "--tmpfs",
        "/workspace:exec,uid=1000",
        "--tmpfs",
        "/tmp",
    ]
    said = docker("run", *options, image, "sh", "-ec", "\n".join(["test $(id -u) = 1000", *HELLO[name]]))
    assert "hello" in said


def test_the_store_is_not_touched_by_what_only_loads(bench: Bench) -> None:
    """An engine that has the image needs no package (I6)."""
    bench.ensure(bench.pin)
    shutil.rmtree(package_store())
    assert bench.ensure(bench.pin) == [bench.pin.config]
