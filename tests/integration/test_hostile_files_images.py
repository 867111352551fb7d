"""Hostile images in ./images: refused in one line, and `images list` still lists the others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.bundle import shipped
from tests.hostile import refused, typed

PLACES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "no end": lambda path: path.symlink_to("/dev/zero"),
    "a loop": lambda path: path.symlink_to(path.name),
    "brackets": lambda path: path.write_bytes((b"a = " if path.suffix == ".toml" else b"") + b"[" * 100_000),
}


@pytest.mark.parametrize("file", ["image.toml", "image.lock.json"])
@pytest.mark.parametrize("make", PLACES.values(), ids=PLACES)
def test_what_lies_in_the_place_of_an_image_is_named(tmp_path: Path, file: str, make: Callable[[Path], object]) -> None:
    """Status 3 with the file; `images list` gives it as that image's problem (I9; issue 3, Bad input)."""
    folder = _image(tmp_path)
    (folder / file).unlink()
    make(folder / file)
    for verb in ("sbom", "build"):
        assert file in refused(tmp_path, "images", verb, "odd", "--json", status=3).line
    listed = typed(tmp_path, "images", "list", "--json")
    assert listed.returncode == 0
    rows = {row["name"]: row["problem"] for row in json.loads(listed.stdout)}
    assert file in rows["odd"]
    assert rows["base"] is None


def test_a_moment_that_no_archive_can_hold_is_refused(tmp_path: Path) -> None:
    """A tar header has eleven octal digits for it; found when the lock is read, not after the packages are fetched."""
    lock = _image(tmp_path) / "image.lock.json"
    lock.write_text(json.dumps({**json.loads(lock.read_text()), "sourceDateEpoch": 2**52}))
    assert "sourceDateEpoch" in refused(tmp_path, "images", "build", "odd", "--json", status=3).line


def _image(home: Path) -> Path:
    folder = home / "images/odd"
    folder.mkdir(parents=True)
    for name in ("image.toml", "image.lock.json"):
        (folder / name).write_bytes((shipped("images") / "base" / name).read_bytes())
    return folder
