"""The worked example of docs/publishing.md, typed block by block by three people with a home each, on a real engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.bundle import cache_home
from appliance.digests import sha256_hex

pytestmark = pytest.mark.docker

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = (_ROOT / "docs/publishing.md").read_text()
_BLOCK = re.compile(r"^```sh ([a-z]+)(?: ([0-9]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PEOPLE = ("publisher", "receiver", "doubter")


@dataclass(frozen=True)
class Typed:
    who: str
    script: str
    ended: subprocess.CompletedProcess[str]


def _released(folder: Path) -> Path:
    """A folder with `appliance` in it: this program as it is installed from a release, outside of any checkout, for
    what is run from a changed one is nothing to publish."""
    for package in ("appliance", "attest"):
        shutil.copytree(_ROOT / package, folder / "lib" / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("images", "tasks", "solvers", "schemas"):
        (folder / "lib" / name).symlink_to(_ROOT / name)
    command = folder / "bin/appliance"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m appliance.cli.main "$@"\n')
    command.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Typed]]:
    """The whole page, once; the blocks in their order, each with what it printed."""
    released = _released(tmp_path_factory.mktemp("released"))
    place = tmp_path_factory.mktemp("day")
    typed = []
    for who in _PEOPLE:
        (place / who).mkdir()
    for who, status, script in _BLOCK.findall(_PAGE):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("XDG_")},
            "HOME": str(place / who),
            "XDG_CACHE_HOME": str(cache_home().parent),  # archives and packages; nothing that speaks for anybody
            "PATH": f"{released / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(released / "lib"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=place / who,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert ended.returncode == int(status or 0), f"{who}:\n{script}\n{ended.stdout}\n{ended.stderr}"
        assert "Traceback" not in ended.stderr
        typed.append(Typed(who, script, ended))
    return place, typed


def _said(day: tuple[Path, list[Typed]], who: str, words: str, at: int = 0) -> subprocess.CompletedProcess[str]:
    return [one.ended for one in day[1] if one.who == who and words in one.script][at]


def test_every_shell_block_of_the_page_is_typed_by_somebody() -> None:
    """A block without a name over it would be one that no test runs."""
    assert len(re.findall(r"^```sh", _PAGE, re.MULTILINE)) == len(_BLOCK.findall(_PAGE))
    assert {who for who, _, _ in _BLOCK.findall(_PAGE)} == set(_PEOPLE)


def test_answers_are_not_published_before_that_is_said(day: tuple[Path, list[Typed]]) -> None:
    """The first `publish` ends with status 2 and names what the suite's archive would reveal (issue 5, 3)."""
    ended = _said(day, "publisher", "appliance publish")
    assert "reference solutions: 1 (hello)" in ended.stderr
    assert "hidden tests: 1 (hello)" in ended.stderr
    assert "--with-suite" in ended.stderr


def test_publishing_again_adds_nothing(day: tuple[Path, list[Typed]]) -> None:
    """`added` once, `there` the second time; the verdict is one line more (issue 5, 3)."""
    rows = [_said(day, "publisher", "appliance publish", at).stdout for at in (1, 2, 3)]
    assert rows[0].startswith("added ")
    assert rows[1].startswith("there ")
    assert [line.split()[0] for line in rows[2].splitlines()] == ["there", "added"]
    lines = (day[0] / "publisher/site/index.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["record", "verdict"]


def test_the_doubter_checks_the_folder_with_nothing_but_it_and_a_card(day: tuple[Path, list[Typed]]) -> None:
    """`verify DIR`: index and record, every blob there (issue 5, 3)."""
    ended = _said(day, "doubter", "appliance verify site")
    assert "1 verified of 1 record" in ended.stdout
    assert "an index of 1 entry" in ended.stderr


def test_the_doubter_ran_it_again_and_signed_for_that(day: tuple[Path, list[Typed]]) -> None:
    """A verdict about the published record, by her own name, over all of its trials (rows R5, P3)."""
    ended = _said(day, "doubter", "appliance reproduce")
    [record] = (day[0] / "publisher/site/records").glob(f"{'?' * 64}.json")
    assert f"record     sha256:{record.stem}" in ended.stdout
    assert "PASSED: BENCH_REPRODUCED_WITHIN_TOLERANCE" in ended.stdout
    assert "3 of 3 trials" in ended.stdout
    assert record.stem == sha256_hex(record.read_bytes())


def test_one_digit_changed_is_refused(day: tuple[Path, list[Typed]]) -> None:
    """Status 7, naming the file."""
    assert "forged/records/" in _said(day, "doubter", "forged").stderr


def test_the_receiver_accepts_it_as_verified_and_once(day: tuple[Path, list[Typed]]) -> None:
    """Challenge met, signer listed, verdict of a listed verifier: tier `verified`; the second time a replay (rows P1,
    P3, P4)."""
    taken, replayed = (_said(day, "receiver", "submission intake", at).stdout for at in (0, 1))
    assert taken.split()[:2] == ["accepted", "verified"]
    assert replayed.startswith("excluded")
    assert "replayed" in replayed
    assert "verified" in _said(day, "publisher", "submission check").stdout


def test_the_board_is_held_to_the_receiver_and_its_records_to_her_policy(day: tuple[Path, list[Typed]]) -> None:
    """Another's record under her own index, her verdict beside it; a reader checks both at once (rows P1, P3)."""
    ended = _said(day, "doubter", "appliance verify board")
    assert "1 accepted of 1 record" in ended.stdout
    assert "an index of 2 entries, 1 record, 1 verdict" in ended.stderr
    lines = [json.loads(line) for line in (day[0] / "receiver/board/index.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["record", "verdict"]
    assert lines[1]["levels"] == ["BENCH_TIER_VERIFIED"]
    assert lines[0]["signer"]["root"] != lines[1]["signer"]["root"]
