"""One image through Debian's nix, with a stand-in for nixpkgs: the same lock, the same builder, the same pin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.errors import HostRefused
from appliance.images.build import build
from appliance.images.catalog import Catalog
from appliance.images.nix import NixProgram, build_with_nix
from appliance.images.store import package_store

CHECKOUT = Path(__file__).parents[2]
SYSTEM = "x86_64-linux"
# As root there is no build group; nothing is fetched; the stand-in takes the host's python3.
SETTINGS = "experimental-features = nix-command flakes\nbuild-users-group =\nsubstituters =\nsandbox = false\n"


@pytest.fixture(scope="module")
def flake() -> Iterator[Path]:
    """What the flake needs of the checkout, and the locked packages where fetchurl's outputs would lie."""
    catalog = Catalog((CHECKOUT / "images",))
    build(catalog, "base", print)
    with tempfile.TemporaryDirectory(prefix="bench-nix.") as folder:
        root = Path(folder)
        for name in ("flake.nix", "pyproject.toml"):
            shutil.copyfile(CHECKOUT / name, root / name)
        for name in ("images", "appliance"):
            shutil.copytree(CHECKOUT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "debs").mkdir()
        named = []
        for package in catalog.recipe("base").all_packages:
            path = root / "debs" / f"{package.sha256}.deb"
            shutil.copyfile(package_store() / package.sha256, path)
            named.append(str(path))
        nix("nix-store", "--add-fixed", "sha256", *named)
        shutil.rmtree(root / "debs")
        yield root


def nix(*words: str) -> str:
    ended = subprocess.run(
        words, env={**os.environ, "NIX_CONFIG": SETTINGS}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


@pytest.mark.nix
@pytest.mark.slow
def test_nix_builds_the_locked_pin(flake: Path, tmp_path: Path) -> None:
    """`checks.pin-base` holds, and the image's own words say the same (I2)."""
    overridden = ["--override-input", "nixpkgs", f"path:{flake}/images/testing/stub", "--no-write-lock-file"]
    nix("nix", "build", f"path:{flake}#checks.{SYSTEM}.pin-base", *overridden, "--no-link")
    nix("nix", "build", f"path:{flake}#image-base", *overridden, "--out-link", str(tmp_path / "built"))
    said = json.loads((tmp_path / "built/pin.json").read_text())
    assert said == Catalog((CHECKOUT / "images",)).lock("base").pin.json_value()


@pytest.mark.nix
@pytest.mark.slow
@pytest.mark.parametrize("program", ["nix", "nix-portable"])
def test_building_through_nix_is_one_option_and_gives_the_same_archive(
    flake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: NixProgram
) -> None:
    """A program of that name gets nix's words; what it builds is kept where a native build's would be (I24)."""
    real = shutil.which("nix")
    wrapper = tmp_path / "bin" / program
    wrapper.parent.mkdir()
    shifted = "" if program == "nix" else 'test "$1" = nix; shift\n'
    wrapper.write_text(
        f'#!/bin/sh\nset -e\nprintf "%s\\n" "$@" > {tmp_path}/said\n{shifted}'
        f'exec {real} "$@" --override-input nixpkgs path:{flake}/images/testing/stub --no-write-lock-file\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("NIX_CONFIG", SETTINGS)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    catalog = Catalog((flake / "images",))
    built = build_with_nix(program, catalog, "base", print)
    assert built.pin == catalog.lock("base").pin
    assert built.archive.is_relative_to(tmp_path)
    assert not build(catalog, "base", print).made
    said = (tmp_path / "said").read_text().split("\n")
    assert said[: said.index("build")] == [
        *(["nix"] if program == "nix-portable" else []),
        "--extra-experimental-features",
        "nix-command flakes",
    ]
    assert f"{flake}#image-base" in said


@pytest.mark.parametrize("program", ["nix", "nix-portable"])
def test_a_builder_that_is_not_here_is_refused_with_its_mend(
    program: NixProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 4, and never another builder in its place (I24)."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostRefused, match=rf"{program} is not on PATH \(.*--builder native"):
        build_with_nix(program, Catalog((CHECKOUT / "images",)), "base", print)
