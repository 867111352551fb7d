"""`appliance images` as a person types it: words out, one JSON document, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import output
from appliance.cli.main import run
from appliance.images.store import package_store
from tests.images_small import Shelf, small_shelf


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("APPLIANCE_DEBIAN_MIRROR", f"file://{tmp_path}/mirror")
    monkeypatch.chdir(tmp_path)
    # One document a program: in these tests one process is many programs.
    monkeypatch.setattr(output, "_emitted", False)
    return small_shelf(tmp_path / "images")


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_list_shows_the_own_folder_first_and_then_what_ships(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """`./images` and the shipped ones, each with its pin (issue: search order)."""
    assert run(["images", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(said(capsys)[0])}
    assert {"small", "base", "c", "node"} <= set(rows)
    assert rows["small"]["pin"] == shelf.catalog.lock("small").pin.json_value()
    assert rows["small"]["built"] is True
    assert rows["c"]["base"] == "base"


def test_a_broken_image_does_not_hide_the_others(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """Its problem stands in its row; the listing is whole."""
    shelf.define("broken", "packages = 3")
    assert run(["images", "list"]) == 0
    lines = said(capsys)[0].splitlines()
    assert any(line.startswith("broken") and "packages" in line for line in lines)
    assert any(line.startswith("base") and "sha256:" in line for line in lines)


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (["build", "nope"], 2, "no image is named 'nope'"),
        (["build", "small", "--builder", "magic"], 2, "magic"),
        (["sbom"], 2, "NAME"),
        (["build", "stale"], 3, "no lock"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_line_and_a_status(
    shelf: Shelf, capsys: pytest.CaptureFixture[str], words: list[str], status: int, reason: str
) -> None:
    """2 for the command line, 3 for a file; with --json the same as a document (design 7)."""
    shelf.define("stale", 'packages = ["git"]')
    assert run(["images", *words, "--json"]) == status
    out, err = said(capsys)
    error: dict[str, Any] = json.loads(out)["error"]
    assert error["status"] == status
    assert reason in error["message"]
    assert "Traceback" not in err


def test_build_and_sbom_and_verify_answer_in_json(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """What was made, where it lies, and that it is what the lock pins (I1, I13)."""
    pin = shelf.catalog.lock("small").pin.json_value()
    assert run(["images", "build", "small", "--json"]) == 0
    [built] = json.loads(said(capsys)[0])
    assert (built["pin"], built["made"], Path(built["archive"]).is_file()) == (pin, False, True)
    assert run(["images", "verify", "small", "--json"]) == 0
    assert json.loads(said(capsys)[0])[0]["pin"] == pin
    assert run(["images", "sbom", "small"]) == 0
    assert len(json.loads(said(capsys)[0])["components"]) == 2


def test_verify_refuses_a_damaged_archive_with_its_mend(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """Every layer of the cached archive is hashed (status 3)."""
    [archive] = (package_store().parent / "images").glob("*.tar")
    content = archive.read_bytes()
    at = content.index(b"hello\n")
    archive.write_bytes(content[:at] + b"HELLO\n" + content[at + 6 :])
    assert run(["images", "verify", "small"]) == 3
    assert "images build --again small" in said(capsys)[1]
    assert run(["images", "build", "--again", "small"]) == 0
    assert run(["images", "verify", "small"]) == 0


def test_a_package_that_is_gone_ends_with_status_4(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """The host's move: name a source that has it (I7)."""
    for path in package_store().iterdir():
        path.unlink()
    assert run(["images", "build", "--again", "small"]) == 4
    assert "2 locked packages are in no source any more" in said(capsys)[1]


def test_locking_an_unchanged_definition_changes_no_byte(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --update nothing is resolved, so no mirror is asked (I7)."""
    path = shelf.root / "small/image.lock.json"
    before = path.read_bytes()
    assert run(["images", "lock", "small"]) == 0
    assert path.read_bytes() == before
    assert said(capsys)[0].strip() == f"small: {shelf.catalog.lock('small').pin.config}"


def test_a_mirror_that_does_not_answer_ends_with_status_4(shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    """The one variable that mends it is named; nothing is written."""
    shelf.define("fresh", 'packages = ["git"]')
    assert run(["images", "lock", "fresh"]) == 4
    assert "APPLIANCE_DEBIAN_MIRROR" in said(capsys)[1]
    assert not (shelf.root / "fresh/image.lock.json").exists()
