"""The builder on real packages: the same bytes everywhere, and nothing of the host or of the moment in them."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.images.archives import read_archive
from appliance.images.build import build
from appliance.images.catalog import Catalog
from appliance.images.lock import pin_of
from appliance.images.store import package_store
from appliance.pins import Pin
from tests.images_small import builder_sources

CHECKOUT = Path(__file__).parents[2]
CATALOG = Catalog((CHECKOUT / "images",))


@pytest.fixture(scope="module")
def everyones() -> Iterator[Path]:
    """The builder's sources, the locks and the locked packages where any user can read them."""
    for name in CATALOG.names():
        build(CATALOG, name, print)
    with tempfile.TemporaryDirectory(prefix="bench-test.") as folder:
        root = Path(folder)
        root.chmod(0o755)
        shutil.copytree(CHECKOUT / "images", root / "images")
        for source in builder_sources():
            target = root / "sources" / source.relative_to(CHECKOUT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        (root / "store").mkdir()
        for name in CATALOG.names():
            for package in CATALOG.recipe(name).packages:
                shutil.copyfile(package_store() / package.sha256, root / "store" / package.sha256)
        yield root


def run_builder(root: Path, name: str, out: Path, *, python: str, prefix: tuple[str, ...] = (), **env: str) -> Pin:
    """`-S`: without site-packages, so that nothing but the standard library can be imported."""
    subprocess.run(
        [
            *prefix,
            python,
            "-S",
            "-B",
            "-m",
            "appliance.images.builder",
            str(root / "images"),
            name,
            str(root / "store"),
            str(out),
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root / "sources"), **env},
        cwd="/",
        check=True,
    )
    return Pin.from_json((out / "pin.json").read_bytes(), "pin.json")


def another_python() -> str | None:
    """The newest from 3.11 on besides this one, from PATH and pyenv, that has what the builder imports."""
    for minor in range(15, 10, -1):
        version = f"python3.{minor}"
        candidates = [shutil.which(version), *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{version}"))]
        for candidate in filter(None, candidates):
            asked = [candidate, "-c", "import lzma, sys, tomllib; print(sys.version_info[:2])"]
            ran = subprocess.run(asked, capture_output=True, text=True, check=False)
            if ran.returncode == 0 and ran.stdout.strip() != str(sys.version_info[:2]):
                return candidate
    return None


@pytest.mark.slow
def test_zone_umask_hash_seed_and_folder_do_not_show_in_an_image(everyones: Path, tmp_path: Path) -> None:
    """The pin is the lock's under each of them, base (its first layer) and what stands on it (I1)."""
    scratch = tmp_path / ("long" * 20)
    scratch.mkdir()
    pin = run_builder(
        everyones,
        "c",
        tmp_path / "c",
        python=sys.executable,
        prefix=("sh", "-c", 'umask 077; exec "$@"', "-"),
        TZ="Asia/Kathmandu",
        PYTHONHASHSEED="42",
        TMPDIR=str(scratch),
        LC_ALL="C",
    )
    assert pin == CATALOG.lock("c").pin
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
def test_another_python_builds_the_same_bytes(everyones: Path, tmp_path: Path) -> None:
    """The newest that this machine has (I1)."""
    python = another_python()
    if python is None:
        pytest.skip("no other Python from 3.11 on is here")
    assert (
        run_builder(everyones, "base", tmp_path / "out", python=python, TZ="America/Lima") == CATALOG.lock("base").pin
    )


@pytest.mark.slow
@pytest.mark.root
def test_an_ordinary_user_builds_the_same_bytes(everyones: Path) -> None:
    """Owners and set-id bits are values, not the builder's rights (I1)."""
    with tempfile.TemporaryDirectory(prefix="bench-test.") as folder:
        os.chown(folder, 65534, 65534)
        drop = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs")
        python = str(Path("/usr/bin/python3").resolve()) if Path("/usr/bin/python3").exists() else sys.executable
        pin = run_builder(everyones, "base", Path(folder) / "out", python=python, prefix=drop, TMPDIR=folder)
    assert pin == CATALOG.lock("base").pin


def layer(name: str, number: int) -> tarfile.TarFile:
    image = read_archive(build(CATALOG, name, print).archive)
    return tarfile.open(fileobj=io.BytesIO(b"".join(image.layers[number].content.chunks())), mode="r:")


@pytest.fixture(scope="module")
def base() -> tarfile.TarFile:
    return layer("base", 0)


def test_nothing_of_the_host_and_nothing_of_the_moment_is_in_an_image(base: tarfile.TarFile) -> None:
    """Files that are the host's or backups, device nodes, owners' names, fractions of seconds, folders' times (I14)."""
    names = set(base.getnames())
    assert not names & {"etc/resolv.conf", "etc/hostname", "etc/hosts", "etc/machine-id", "var/lib/dbus/machine-id"}
    assert not [name for name in names if name.startswith(("dev/", "var/lib/apt/lists/deb", "var/cache/apt/pkgcache"))]
    assert not [
        name for name in names if name.endswith(("-old", ".dpkg-new")) or name in ("etc/passwd-", "etc/shadow-")
    ]
    epoch = CATALOG.lock("base").source_date_epoch
    for member in base:
        assert member.isfile() or member.isdir() or member.issym() or member.islnk(), member.name
        assert (member.uname, member.gname) == ("", "")
        assert isinstance(member.mtime, int)
        assert member.mtime <= epoch
        assert not member.isdir() or member.mtime == epoch


def test_every_hard_link_follows_the_file_that_it_names(base: tarfile.TarFile) -> None:
    """In tar order, in the same layer: an unpacker needs no second look."""
    seen: set[str] = set()
    links = 0
    for member in base:
        if member.islnk():
            links += 1
            assert member.linkname in seen, member.name
        seen.add(member.name)
    assert links


def test_every_python_module_has_byte_code_that_no_clock_can_outdate(base: tarfile.TarFile) -> None:
    """Unchecked-hash files (flags 1, PEP 552) beside each source that compiles, with the image's own paths (I15)."""
    members = {member.name: member for member in base}
    sources = [
        name
        for name in members
        if name.startswith(("usr/lib/python3.11/", "usr/lib/python3/")) and name.endswith(".py")
    ]
    lacking = []
    for source in sources:
        folder, _, module = source.rpartition("/")
        code = members.get(f"{folder}/__pycache__/{module.removesuffix('.py')}.cpython-311.pyc")
        if code is None:
            lacking.append(source)
            continue
        stream = base.extractfile(code)
        assert stream is not None
        content = stream.read()
        assert struct.unpack("<I", content[4:8]) == (1,)
        assert f"/{source}".encode() in content, source
    assert len(sources) > 500
    assert not [source for source in lacking if "lib2to3/tests/data" not in source]


def test_users_1000_and_1001_are_bench_and_judge_with_homes_of_their_own(base: tarfile.TarFile) -> None:
    """Whoever solves is not whoever grades (formats 7, 9)."""
    stream = base.extractfile("etc/passwd")
    assert stream is not None
    lines = stream.read().decode().splitlines()
    assert "bench:x:1000:1000:bench:/home/bench:/bin/bash" in lines
    assert "judge:x:1001:1001:judge:/home/judge:/bin/bash" in lines
    assert (base.getmember("home/bench").uid, base.getmember("home/judge").uid) == (1000, 1001)


def test_what_stands_on_base_is_base_and_one_layer_of_its_own() -> None:
    """Shared layers are stored and loaded once; the added one repeats nothing of base but the folders it is in."""
    below = {member.name: member for member in layer("base", 0)}
    for name in ("c", "node"):
        pin = CATALOG.lock(name).pin
        assert pin.diff_ids[:-1] == CATALOG.lock("base").pin.diff_ids
        repeated = [m.name for m in layer(name, 1) if m.name in below and not m.isdir()]
        assert set(repeated) <= {"var/lib/dpkg/status"}, name


def test_an_archive_is_a_docker_archive_and_an_oci_layout_at_once() -> None:
    """Both readings name the same configuration and layers, by the digests that the pin has before any load (I4)."""
    built = build(CATALOG, "c", print)
    with tarfile.open(built.archive) as tar:

        def read(name: str) -> bytes:
            stream = tar.extractfile(name)
            assert stream is not None
            return stream.read()

        docker = json.loads(read("manifest.json"))[0]
        assert json.loads(read("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
        described = json.loads(read("index.json"))["manifests"][0]
        assert described["digest"] == built.pin.manifest
        manifest = json.loads(read("blobs/sha256/" + described["digest"][7:]))
        assert manifest["config"]["digest"] == built.pin.config
        assert docker["Config"] == "blobs/sha256/" + built.pin.config[7:]
        assert tuple(found["digest"] for found in manifest["layers"]) == built.pin.diff_ids
        assert docker["Layers"] == ["blobs/sha256/" + digest[7:] for digest in built.pin.diff_ids]
        assert all(
            tar.getmember(path).size == found["size"]
            for path, found in zip(docker["Layers"], manifest["layers"], strict=True)
        )
    assert pin_of(read_archive(built.archive).identity) == built.pin
