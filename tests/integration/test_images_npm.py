"""npm packages by the real npm from a registry on loopback: locked, fetched, built; no script of theirs ever runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.errors import HostRefused, InputRefused
from appliance.images.archives import read_archive
from appliance.images.build import build
from appliance.images.catalog import Catalog
from appliance.images.locking import lock_image
from appliance.images.sbom import bill_of_materials
from appliance.images.store import package_store
from tests.images_layers import layer_files
from tests.images_npm import Registry, served

pytestmark = pytest.mark.node
TOML = 'kind = "solver"\nnpm = ["tool@1.0.0"]\n'


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A tool with a platform's program under an alias, a dependency in two versions, scripts that leave a mark."""
    registry = Registry()
    mark = f"touch {tmp_path}/a-script-ran"
    scripts = {"preinstall": mark, "install": mark, "postinstall": mark, "prepare": mark, "prepack": mark}
    registry.publish("leaf", "1.0.0", {"index.js": b"one"})
    registry.publish("leaf", "2.0.0", {"index.js": b"two"})
    registry.publish("@scope/middle", "3.1.0", {"lib/a.js": b"a"}, dependencies={"leaf": "2.0.0"}, scripts=scripts)
    for system, version in (("linux", "1.0.0-linux-x64"), ("darwin", "1.0.0-darwin-x64")):
        program = {"bin/tool": f"#!/bin/sh\necho {system}\n".encode()}
        registry.publish("tool", version, program, os=[system], cpu=["x64"])
    registry.publish("tool-musl", "1.0.0", os=["linux"], cpu=["x64"], libc=["musl"])
    registry.publish("tool-extra", "1.0.0", {"big": b"x"})
    registry.publish(
        "tool",
        "1.0.0",
        {"cli.js": b"#!/usr/bin/env node\n"},
        dependencies={"leaf": "1.0.0", "@scope/middle": "^3.0.0"},
        optionalDependencies={
            "tool-linux-x64": "npm:tool@1.0.0-linux-x64",
            "tool-darwin-x64": "npm:tool@1.0.0-darwin-x64",
            "tool-musl": "1.0.0",
            "tool-extra": "1.0.0",
        },
        scripts=scripts,
    )
    with served(registry) as url:
        monkeypatch.setenv("npm_config_registry", url)
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        monkeypatch.setenv("npm_config_fetch_retries", "0")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield registry


def silent(_: str) -> None:
    """Nobody is told."""


def defined(root: Path, text: str) -> Catalog:
    folder = root / "images" / "x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.toml").write_text(text)
    return Catalog((root / "images",))


def test_a_lock_holds_the_whole_tree_for_this_platform_and_no_host(registry: Registry, tmp_path: Path) -> None:
    """Exact versions and places, an alias under its package's own name; other platforms are left out (formats 2)."""
    catalog = defined(tmp_path, TOML + 'omit = ["tool-extra"]\n')
    lock_image(catalog, "x", silent)
    entries = catalog.lock("x").entries
    assert [(one.name, one.version, one.path) for one in entries] == [
        ("@scope/middle", "3.1.0", "node_modules/@scope/middle"),
        ("leaf", "2.0.0", "node_modules/@scope/middle/node_modules/leaf"),
        ("leaf", "1.0.0", "node_modules/leaf"),
        ("tool", "1.0.0", "node_modules/tool"),
        ("tool", "1.0.0-linux-x64", "node_modules/tool-linux-x64"),
    ]
    assert "127.0.0.1" not in (catalog.folder("x") / "image.lock.json").read_text()
    purls = [one["purl"] for one in bill_of_materials(catalog.lock("x"), catalog.recipe("x"))["components"]]
    assert purls[0] == "pkg:npm/%40scope/middle@3.1.0"


def test_what_is_built_is_what_npm_would_lay_out_and_no_script_has_run(registry: Registry, tmp_path: Path) -> None:
    """Files at their places in the solver's own tree; programs keep their bit, all else is 644; the same pin again."""
    catalog = defined(
        tmp_path, TOML + '[links]\n"opt/solvers/x/bin/tool" = "../lib/node_modules/tool-linux-x64/bin/tool"\n'
    )
    pin = lock_image(catalog, "x", silent).after
    built = build(catalog, "x", silent, again=True)
    assert built.pin == pin
    files = layer_files(read_archive(built.archive))
    below = "opt/solvers/x/lib/node_modules"
    assert files[f"{below}/@scope/middle/node_modules/leaf/index.js"].content == b"two"
    assert files[f"{below}/leaf/index.js"].content == b"one"
    assert (files[f"{below}/tool-linux-x64/bin/tool"].mode, files[f"{below}/leaf/index.js"].mode) == (0o755, 0o644)
    assert files["opt/solvers/x/bin/tool"].link == "../lib/node_modules/tool-linux-x64/bin/tool"
    assert not (tmp_path / "a-script-ran").exists()


def test_packages_that_the_store_has_lost_are_fetched_again_by_hash(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the registry; other bytes are never taken in their place (I7, I8)."""
    catalog = defined(tmp_path, TOML)
    lock_image(catalog, "x", silent)
    stored = {path: path.read_bytes() for path in package_store().iterdir()}
    for path in stored:
        path.unlink()
    build(catalog, "x", silent, again=True)
    assert {path: path.read_bytes() for path in package_store().iterdir()} == stored
    lost = next(one for one in catalog.lock("x").entries if one.name == "@scope/middle")
    (package_store() / lost.sha256).unlink()
    registry.altered.add("/-/@scope-middle-3.1.0.tgz")
    # npm keeps what it fetched, for as long as it likes.
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "another"))
    with pytest.raises(HostRefused, match=r"in no source any more: npm @scope/middle 3\.1\.0 sha256:"):
        build(catalog, "x", silent, again=True)


def test_a_kept_folder_gives_an_npm_package_by_the_name_that_npm_gives_it(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`npm pack` writes scope-name-version.tgz: a bundle that somebody kept is of such files (I7)."""
    catalog = defined(tmp_path, TOML)
    lock_image(catalog, "x", silent)
    lost = next(one for one in catalog.lock("x").entries if one.name == "@scope/middle")
    kept = tmp_path / "kept" / "scope-middle-3.1.0.tgz"
    kept.parent.mkdir()
    (package_store() / lost.sha256).rename(kept)
    registry.altered.add("/-/@scope-middle-3.1.0.tgz")
    monkeypatch.setenv("APPLIANCE_PACKAGES", str(kept.parent))
    build(catalog, "x", silent, again=True)


def test_an_unknown_package_is_refused_in_npms_own_words(registry: Registry, tmp_path: Path) -> None:
    """One line, status 3, nothing written."""
    catalog = defined(tmp_path, 'kind = "solver"\nnpm = ["no-such@1.0.0"]\n')
    with pytest.raises(InputRefused, match=r"npm: cannot be had from npm: .*404") as refused:
        lock_image(catalog, "x", silent)
    assert "\n" not in str(refused.value)
    assert not (catalog.folder("x") / "image.lock.json").exists()


def test_leaving_out_what_is_not_there_is_refused(registry: Registry, tmp_path: Path) -> None:
    """A name that was mistyped would leave nothing out."""
    catalog = defined(tmp_path, TOML + 'omit = ["tool-extras"]\n')
    with pytest.raises(InputRefused, match="omit: no package tool-extras is in npm's tree"):
        lock_image(catalog, "x", silent)


def test_a_program_that_npm_passed_over_is_missed_when_the_image_is_locked(registry: Registry, tmp_path: Path) -> None:
    """npm says nothing where an optional package fails, and the program may be one: the link to it leads nowhere."""
    del registry.versions["tool"]["1.0.0-linux-x64"]
    link = '[links]\n"opt/solvers/x/bin/tool" = "../lib/node_modules/tool-linux-x64/bin/tool"\n'
    catalog = defined(tmp_path, TOML + link)
    with pytest.raises(InputRefused, match="leads to /opt/solvers/x/lib/node_modules/tool-linux-x64/bin/tool"):
        lock_image(catalog, "x", silent)


def test_without_npm_the_mend_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 4: the host's matter."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(HostRefused, match=r"no npm here.*apt-get install npm"):
        lock_image(defined(tmp_path, TOML), "x", silent)


def test_a_registrys_own_checksum_is_held(registry: Registry, tmp_path: Path) -> None:
    """Bytes that differ from what the registry resolved are never locked (I8)."""
    registry.altered.add("/-/leaf-1.0.0.tgz")
    with pytest.raises(InputRefused, match="npm"):
        lock_image(defined(tmp_path, TOML), "x", silent)
    assert [path.name for path in (tmp_path / "images" / "x").iterdir()] == ["image.toml"]
