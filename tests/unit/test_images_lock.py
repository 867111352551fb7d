"""Locks: fresh or refused, packages by digest or refused, and never a host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.images.build import build
from appliance.images.builder import recipe as builder
from appliance.images.catalog import Catalog
from appliance.images.lock import ImageLock, LockedBase, read_lock, version_changes
from appliance.images.nix import build_with_nix
from appliance.images.sbom import bill_of_materials
from appliance.images.store import fetch, package_store
from tests.images_small import Shelf, builder_sources, deb, small_packages, small_shelf

SHIPPED = Path(__file__).parents[2] / "images"


def silent(_: str) -> None:
    """Nobody is told."""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return small_shelf(tmp_path / "images")


def test_a_definition_that_was_edited_makes_its_lock_stale(shelf: Shelf) -> None:
    """Refused with the command that mends it, whatever the cache holds (I9)."""
    build(shelf.catalog, "small", silent)
    shelf.define("small", 'packages = ["hello-file", "base-passwd", "git"]')
    with pytest.raises(InputRefused, match=r"stale lock.*appliance images lock small"):
        build(shelf.catalog, "small", silent)


def test_nix_gets_every_file_that_the_builder_runs_from() -> None:
    """The flake lists what stands outside the builder's own folder; the rest of the checkout is no input (I2)."""
    checkout = SHIPPED.parent
    listed = set(re.findall(r'"(appliance/[a-z_/]+\.py)"', (checkout / "flake.nix").read_text()))
    needed = {str(path.relative_to(checkout)) for path in builder_sources()}
    assert {path for path in needed if not path.startswith("appliance/images/builder/")} == listed


def test_a_base_with_another_pin_makes_a_lock_stale(shelf: Shelf) -> None:
    """What stands on a base is locked to its bytes, not to its name (I9)."""
    shelf.define("above", 'base = "small"\nfiles = [{source = "f", target = "srv/f"}]\n')
    shelf.lock("above", {}, files={"srv/f": ("f", b"1")})
    shelf.lock("small", {**small_packages(), "hello-file": deb("hello-file", "1.0", [("usr/share/hello", b"bye\n")])})
    with pytest.raises(InputRefused, match=r"the base 'small' has another pin"):
        shelf.catalog.lock("above")


def test_a_package_with_one_byte_changed_is_refused_by_name(shelf: Shelf, tmp_path: Path) -> None:
    """The store is believed neither before a build nor in it: Nix runs the builder alone (I8)."""
    lock = shelf.catalog.lock("small")
    locked = next(entry for entry in lock.entries if entry.name == "hello-file")
    path = package_store() / locked.sha256
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    said = r"deb hello-file 1\.0 is not the locked one"
    with pytest.raises(InputRefused, match=said) as refused:
        build(shelf.catalog, "small", silent, again=True)
    assert str(path) in str(refused.value)
    with pytest.raises(InputRefused, match=said):
        fetch([locked.locked], lock.suites, (), package_store(), silent)
    with pytest.raises(InputRefused, match=said):
        builder.build(shelf.catalog.recipe("small"), package_store(), tmp_path)


def test_a_package_that_no_source_has_fails_with_all_that_names_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Name, version, sha256 and path of each, status 4; nothing newer in its place (I7)."""
    monkeypatch.setenv("APPLIANCE_DEBIAN_MIRROR", f"file://{tmp_path}/mirror")
    monkeypatch.setenv("APPLIANCE_DEBIAN_SNAPSHOT", f"file://{tmp_path}/snapshot")
    locked = next(entry for entry in shelf.catalog.lock("small").entries if entry.name == "hello-file")
    (package_store() / locked.sha256).unlink()
    newer = tmp_path / "mirror/pool/hello-file_1.0_amd64.deb"
    newer.parent.mkdir(parents=True)
    newer.write_bytes(deb("hello-file", "1.1", [("usr/share/hello", b"newer\n")]))
    with pytest.raises(HostRefused) as refused:
        build(shelf.catalog, "small", silent, again=True)
    assert f"deb hello-file 1.0 sha256:{locked.sha256} {locked.path}" in str(refused.value)
    assert "images lock --update" in str(refused.value)
    assert not list(package_store().glob("bench-scratch*"))


@pytest.mark.parametrize("source", ["mirror", "snapshot", "bundle by name", "bundle by digest"])
def test_a_package_is_had_from_whichever_source_still_has_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str
) -> None:
    """Store, kept bundle, mirrors, snapshot archive at the lock's moment; all by digest (I7)."""
    locked = next(entry for entry in shelf.catalog.lock("small").entries if entry.name == "hello-file")
    stored = package_store() / locked.sha256
    places = {
        "mirror": tmp_path / "mirror" / locked.path,
        "snapshot": tmp_path / "snapshot/archive/debian/20231115T041320Z" / locked.path,
        "bundle by name": tmp_path / "kept" / Path(locked.path).name,
        "bundle by digest": tmp_path / "kept" / locked.sha256,
    }
    places[source].parent.mkdir(parents=True)
    stored.rename(places[source])
    monkeypatch.setenv("APPLIANCE_DEBIAN_MIRROR", f"file://{tmp_path}/mirror")
    monkeypatch.setenv("APPLIANCE_DEBIAN_SNAPSHOT", f"file://{tmp_path}/snapshot")
    monkeypatch.setenv("APPLIANCE_PACKAGES", str(tmp_path / "kept"))
    assert build(shelf.catalog, "small", silent, again=True).made
    assert stored.is_file()


def test_a_pin_that_the_packages_do_not_build_to_is_refused(shelf: Shelf) -> None:
    """The archive of another pin is not taken for the locked one."""
    path = shelf.root / "small/image.lock.json"
    lock = json.loads(path.read_text())
    lock["pin"]["config"] = f"sha256:{1:064x}"
    path.write_text(json.dumps(lock))
    with pytest.raises(InputRefused, match=r"builds to sha256:.*the same builder made it"):
        build(shelf.catalog, "small", silent)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda lock: lock.pop("pin"), "$.pin"),
        (lambda lock: lock.update(extra=1), "$.extra"),
        (lambda lock: lock.update(platform="linux/arm64"), "$.platform"),
        (lambda lock: lock.update(sourceDateEpoch="1"), "$.sourceDateEpoch"),
        (lambda lock: lock["entries"][0].update(sha256="ABC"), "$.entries[0].sha256"),
        (lambda lock: lock["entries"][0].update(kind="rpm"), "$.entries[0].kind"),
        (lambda lock: lock["entries"][0].update(path="../../etc/passwd"), "$.entries[0]"),
        (lambda lock: lock["entries"][0].update(path="http://host/pool/x.deb"), "$.entries[0]"),
        (lambda lock: lock["entries"].reverse(), "$"),
        (lambda lock: lock["entries"].append(lock["entries"][-1]), "$"),
        (lambda lock: lock["pin"].update(diffIds=["sha256:1"]), "$.pin.diffIds[0]"),
    ],
)
def test_a_malformed_lock_is_refused_in_one_line_with_its_place(
    shelf: Shelf, change: Callable[[dict[str, Any]], Any], place: str
) -> None:
    """Status 3, file and JSON path (issue: bad input)."""
    path = shelf.root / "small/image.lock.json"
    lock = json.loads(path.read_text())
    change(lock)
    path.write_text(json.dumps(lock))
    with pytest.raises(InputRefused) as refused:
        read_lock(path.parent)
    assert f"{path}: {place}:" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a":1,"a":2}', b"\xff", b"nul\0l", b"[" * 5000])
def test_a_lock_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    """Truncated, doubled, undecodable or too deep: status 3."""
    (tmp_path / "image.lock.json").write_bytes(content)
    with pytest.raises(InputRefused, match=r"image\.lock\.json"):
        read_lock(tmp_path)


def test_an_image_without_a_lock_says_how_to_make_one(tmp_path: Path) -> None:
    """The mend is the command."""
    with pytest.raises(InputRefused, match=rf"no lock \(appliance images lock {tmp_path.name}\)"):
        read_lock(tmp_path)


def test_an_update_is_told_package_by_package(shelf: Shelf) -> None:
    """What changes version, what comes, what goes (I7)."""
    old = shelf.catalog.lock("small").entries
    newer = old[1].model_copy(update={"version": "1.1", "sha256": "a" * 64})
    added = old[0].model_copy(update={"name": "added"})
    assert version_changes(old, (added, newer)) == [
        "+ deb added 1.0 sha256:" + old[0].sha256[:12],
        "- deb base-passwd 1.0",
        "~ deb hello-file 1.0 -> 1.1 sha256:aaaaaaaaaaaa",
    ]


@pytest.mark.parametrize("name", Catalog((SHIPPED,)).names())
def test_the_bill_of_materials_names_every_package_with_its_digest(name: str) -> None:
    """CycloneDX from the lock alone, the same bytes every time (I13)."""
    catalog = Catalog((SHIPPED,))
    lock, recipe = catalog.lock(name), catalog.recipe(name)
    bill = bill_of_materials(lock, recipe)
    assert bill["bomFormat"] == "CycloneDX"
    assert bill == bill_of_materials(lock, recipe)
    found = [(component["name"], component["hashes"][0]["content"]) for component in bill["components"]]
    assert found == [(package.name, package.sha256) for package in recipe.all_packages]
    libraries = [component for component in bill["components"] if component["type"] == "library"]
    assert all(one["purl"].startswith(("pkg:deb/debian/", "pkg:pypi/", "pkg:npm/")) for one in libraries)
    assert len({component["bom-ref"] for component in bill["components"]}) == len(bill["components"])


@pytest.mark.parametrize("name", Catalog((SHIPPED,)).names())
def test_no_shipped_lock_names_a_host_or_anything_but_main(name: str) -> None:
    """Mirrors are the machine's; only the part of the suite that no longer moves is locked."""
    lock = Catalog((SHIPPED,)).lock(name)
    assert all(suite.components == ("main",) and suite.suite == "bookworm" for suite in lock.suites)
    text = (SHIPPED / name / "image.lock.json").read_text()
    assert "://" not in text
    assert all(entry.path.startswith("pool/main/") for entry in lock.entries if entry.kind == "deb")


def test_a_lock_may_have_an_npm_package_at_several_places_and_any_other_once(shelf: Shelf) -> None:
    """npm's tree nests versions; the order is that of places, so that a lock is written one way (formats 2)."""
    lock = shelf.catalog.lock("small").json_value()
    one = {"kind": "npm", "name": "leaf", "version": "1", "sha256": "0" * 64, "bytes": 1, "path": "node_modules/leaf"}
    nested = {**one, "version": "2", "path": "node_modules/a/node_modules/leaf"}
    good = json.dumps({**lock, "entries": [*lock["entries"], nested, one]}).encode()
    assert [entry.version for entry in ImageLock.from_json(good, "x").entries if entry.kind == "npm"] == ["2", "1"]
    for entries in ([*lock["entries"], one, nested], [*lock["entries"], one, one], [*lock["entries"]] * 2):
        with pytest.raises(InputRefused, match="sorted by kind and name"):
            ImageLock.from_json(json.dumps({**lock, "entries": entries}).encode(), "x")


def test_a_tool_with_another_pin_makes_a_lock_stale(shelf: Shelf) -> None:
    """What compiled an image's modules, or built its programs, is locked to its bytes like a base (I9)."""
    shelf.define("agent", 'kind = "solver"\npython = "small"\n')
    lock = shelf.lock("agent", {})
    tool = LockedBase(name="small", pin=shelf.catalog.lock("small").pin)
    with pytest.raises(InputRefused, match=r"names other tools than image\.toml"):
        shelf.catalog.lock("agent")
    lock.model_copy(update={"tools": (tool,)}).write(shelf.root / "agent")
    assert shelf.catalog.lock("agent").tools == (tool,)
    shelf.lock("small", {**small_packages(), "hello-file": deb("hello-file", "1.0", [("usr/share/hello", b"bye\n")])})
    with pytest.raises(InputRefused, match=r"tools\[0\]\.pin: stale lock: the tool 'small' has another pin"):
        shelf.catalog.lock("agent")


@pytest.mark.parametrize(("name", "kind"), [("codex", "npm"), ("llama", "built")])
def test_nix_is_not_asked_for_what_its_flake_leaves_out(name: str, kind: str) -> None:
    """One line and the builder that does it (status 2), whether or not there is a Nix here (I24)."""
    with pytest.raises(UsageRefused, match=f"{name} has {kind} packages, which Nix does not build.*--builder native"):
        build_with_nix("nix", Catalog((SHIPPED,)), name, silent)
