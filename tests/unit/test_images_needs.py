"""What a solver's image needs of a task's, looked for in the layers of any image."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.images.builder.oci import Image, configuration
from appliance.images.builder.recipe import layer_file
from appliance.images.builder.tar import Entry
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.needs import lacking
from tests.images_small import Shelf, small_shelf

STATUS = b"""Package: git
Status: install ok installed
Version: 1

Package: gone
Essential: yes
Status: deinstall ok config-files
Version: 1

Package: libc6
Status: install ok installed
"""


def image(scratch: Path, *layers: dict[str, bytes]) -> Image:
    made = tuple(
        layer_file({name: Entry(name, content=content) for name, content in files.items()}, scratch) for files in layers
    )
    return Image(configuration([one.digest for one in made], 0, env={}, user="0:0", labels={}), made)


def test_packages_and_paths_are_found_in_whichever_layer_has_them(tmp_path: Path) -> None:
    """Installed packages by dpkg's own list, the uppermost; a package that was removed is none (M18)."""
    whole = image(tmp_path, {"usr/bin/tool": b"", "var/lib/dpkg/status": b""}, {"var/lib/dpkg/status": STATUS})
    assert lacking(whole, ["git", "libc6", "/usr/bin/tool"]) == []
    assert lacking(whole, ["gone", "/usr/bin/other", "ruby"]) == ["gone", "/usr/bin/other", "ruby"]
    assert lacking(image(tmp_path, {"a": b""}), ["git"]) == ["git"]


@pytest.mark.parametrize("removed", ["usr/bin/.wh.tool", "usr/.wh.bin", "usr/.wh..wh..opq", ".wh.usr"])
def test_what_a_layer_above_removed_is_not_there(tmp_path: Path, removed: str) -> None:
    """Images of registries remove files by whiteouts: of the file, of a folder above it, or of all below one."""
    lower = {"usr/bin/tool": b""}
    assert lacking(image(tmp_path, lower, {removed: b""}), ["/usr/bin/tool"]) == ["/usr/bin/tool"]
    assert lacking(image(tmp_path, lower, {removed: b""}, lower), ["/usr/bin/tool"]) == []
    beside = {"usr/bin/.wh.toolbox": b"", "usr/bin/tool": b"new"}
    assert lacking(image(tmp_path, lower, beside), ["/usr/bin/tool"]) == []


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small_shelf(tmp_path / "images")


def test_a_task_image_that_lacks_what_a_solver_needs_is_refused_by_both_names(shelf: Shelf) -> None:
    """Before anything is composed or run, status 3 (formats 2); with what it needs the image is composed."""
    shelf.define("agent", 'kind = "solver"\nneeds = ["hello-file", "python3.11", "/usr/bin/hi"]\n')
    shelf.lock("agent", {})
    library = ImageLibrary(None, shelf.catalog)  # type: ignore[arg-type]  # no engine is asked
    with pytest.raises(InputRefused, match=r"image 'small' has no python3\.11, which image 'agent' needs") as refused:
        library.composed("small", "agent")
    assert refused.value.status == 3
    shelf.define("agent", 'kind = "solver"\nneeds = ["hello-file", "/usr/bin/hi"]\n')
    shelf.lock("agent", {})
    pin = ImageLibrary(None, Catalog((shelf.root,))).composed("small", "agent")  # type: ignore[arg-type]
    assert pin.diff_ids[:-1] == shelf.catalog.lock("small").pin.diff_ids
