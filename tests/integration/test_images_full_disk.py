"""Disks without room: one line that names the folder and the mend, and nothing half-written (row I22)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance import bundle
from appliance.cli.main import run
from appliance.errors import HostRefused
from appliance.files import write_atomically
from appliance.images import archives
from appliance.images.library import ImageLibrary
from appliance.images.locking import lock_image
from appliance.images.store import fetch, package_store
from appliance.pins import Pin
from tests.images_small import Shelf, deb, small_shelf

pytestmark = pytest.mark.root
KIB = 1024


@contextmanager
def small_disk(at: Path, size: int) -> Iterator[Path]:
    """A file system of `size` bytes of its own, gone afterwards."""
    at.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "bench-test", str(at)], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


def filled(disk: Path, left: int) -> None:
    """All but `left` bytes of it are taken."""
    free = shutil.disk_usage(disk).free
    (disk / "filler").write_bytes(b"\0" * (free - left))


def files_under(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """Its packages are in a store on a disk of 256 KiB; no archive is."""
    with small_disk(tmp_path / "cache", 256 * KIB) as disk:
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        monkeypatch.chdir(tmp_path)
        shelf = small_shelf(tmp_path / "images")
        archives.archive_path(shelf.catalog.lock("small").pin.config).unlink()
        yield shelf


@pytest.mark.parametrize("left", [0, 12 * KIB, 52 * KIB])
def test_a_build_on_a_full_disk_is_one_line_and_leaves_the_cache_as_it_was(
    shelf: Shelf, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    """Before the layer, inside it, inside the archive; with room again the same command succeeds (status 4)."""
    cache = bundle.cache_home()
    filled(cache.parent, left)
    before = files_under(cache)
    assert run(["images", "build", "small"]) == 4
    [line] = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("building ")]
    assert line.startswith(
        f"appliance: {cache}: no space left on device (free some space there, or name another place in XDG"
    )
    assert files_under(cache) == before
    (cache.parent / "filler").unlink()
    assert run(["images", "build", "small"]) == 0


def test_a_lock_on_a_full_disk_stays_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the definition is named; a lock is written whole or not at all (status 4)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with small_disk(tmp_path / "images", 64 * KIB) as disk:
        shelf = small_shelf(disk)
        lock = disk / "small/image.lock.json"
        before = lock.read_bytes()
        filled(disk, 0)
        with pytest.raises(HostRefused, match="no space left on device") as refused:
            lock_image(shelf.catalog, "small", lambda _: None)
        assert refused.value.where == str(disk / "small")
        assert lock.read_bytes() == before
        assert files_under(disk / "small") == {"image.toml", "image.lock.json"}


def test_packages_that_do_not_fit_are_not_fetched(shelf: Shelf) -> None:
    """Neither apt nor pip says that the disk was full: both sizes are said before they are asked (status 4)."""
    large = deb("large", "1.0", [("usr/share/large", bytes(range(256)) * KIB)])
    locked = shelf.stored("deb", "large", "1.0", "pool/large_1.0_amd64.deb", large).locked
    (package_store() / locked.sha256).unlink()
    filled(bundle.cache_home().parent, 0)
    with pytest.raises(HostRefused, match=r"MB of packages are to be fetched, 0\.0 MB are free") as refused:
        fetch([locked], (), (), package_store(), lambda _: None)
    assert refused.value.where == str(package_store())


class Holding:
    """An engine that has one image, a file here, and writes it as real ones do: chunk by chunk."""

    def __init__(self, image: Path) -> None:
        self._image = image

    def export(self, image: str, archive: Path) -> None:
        shutil.copyfile(self._image, archive)

    def resolve(self, pin: Pin) -> str | None: ...

    def load(self, archive: Path) -> None: ...

    def pull(self, reference: str) -> None: ...


def _export(library: ImageLibrary, tree: Path) -> None:
    library.pin(f"sha256:{0:064x}")


def _layer(library: ImageLibrary, tree: Path) -> None:
    library.with_tree("small", tree, "srv/tree")


@pytest.mark.parametrize("act", [_export, _layer])
def test_what_a_library_writes_is_whole_or_not_there(
    shelf: Shelf, tmp_path: Path, act: Callable[[ImageLibrary, Path], None]
) -> None:
    """An exported image, a layer of a tree: refused with the cache named, and nothing of them left (status 4)."""
    image = tmp_path / "large.tar"
    image.write_bytes(bytes(300 * KIB))
    tree = tmp_path / "tree"
    write_atomically(tree / "large", bytes(300 * KIB))
    run(["images", "build", "small"])
    before = files_under(bundle.cache_home())
    with pytest.raises(HostRefused, match="no space left on device"):
        act(ImageLibrary(Holding(image), shelf.catalog), tree)
    assert files_under(bundle.cache_home()) == before


def test_a_full_disk_is_not_said_to_be_a_missing_image(shelf: Shelf, tmp_path: Path) -> None:
    """Before a run the same words and mend as for a build (status 4)."""
    cache = bundle.cache_home()
    filled(cache.parent, 0)
    library = ImageLibrary(Holding(tmp_path), shelf.catalog)
    with pytest.raises(HostRefused, match=r"^[^:]*: no space left on device"):
        library.ensure([library.pin("small")[0]])


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read-only: status 4 and the path, no traceback."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    small_shelf(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    with small_disk(tmp_path / "other", 64 * KIB) as disk:
        shutil.copytree(package_store(), disk / "bench-appliance/packages")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        monkeypatch.setenv("XDG_CACHE_HOME", str(disk))
        assert run(["images", "build", "small"]) == 4
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"appliance: {disk}/bench-appliance: read-only file system (")
