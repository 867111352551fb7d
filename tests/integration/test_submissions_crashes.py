"""An intake that is killed, meets another one, or runs out of disk: one state each, and a second try ends the work."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.cli import output
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.records.record import Record
from tests import record_builder as build
from tests.integration.test_images_full_disk import filled, small_disk
from tests.submissions_bench import Receiver, Sender, equal_walls, files_of, genuine

_ROOT = Path(__file__).resolve().parents[2]
KIB = 1024
STEPS = ("fsync", "rename", "replace", "unlink", "rmdir")
"""Of the operating system: before each call of one of these, in the store or its memory, a process is killed once."""


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    return Sender(tmp_path / "sender")


@pytest.fixture
def receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], sender: Sender
) -> Receiver:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "receiver/share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "receiver/config"))
    found = Receiver(tmp_path / "receiver", capsys)
    found.keeps(sender)
    found.intake(sender.submission(genuine(hour=0), to="before"), sender)
    return found


def mixed(sender: Sender) -> tuple[Path, dict[str, str]]:
    """A submission of three, and what each of them will come to by its sha256."""
    good, doubtful, broken = genuine(hour=1), equal_walls(), genuine(hour=2).model_copy(update={"complete": False})
    folder = sender.submission(good, doubtful, broken, to="mixed")
    return folder, {
        sha256_hex(good.canonical()): "accepted",
        sha256_hex(doubtful.canonical()): "quarantined",
        sha256_hex(broken.canonical()): "excluded",
    }


def killed_at(step: int, act: Callable[[], int]) -> bool:
    """Runs `act` in a child that is killed (SIGKILL) before its so-many-th step; False where it ended before that."""
    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        output._emitted = False
        _count_down(step)
        os._exit(act())
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def _count_down(step: int) -> None:
    left = [step]

    def counted(genuine_call: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            named_by = f"/proc/self/fd/{words[0]}" if isinstance(words[0], int) else words[0]
            if "/store" in os.path.realpath(named_by):
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
            return genuine_call(*words, **named)

        return call

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))


def assert_whole(receiver: Receiver, wanted: dict[str, str]) -> None:
    """Each record has one state, one line, one verdict, and lies where its state says."""
    shown = receiver.shown()
    states = {one["record"]: one["status"] for one in shown["records"]}
    assert {sha256: states.get(sha256) for sha256 in wanted} == wanted
    lines = [one["record"] for one in shown["decisions"]]
    assert len(lines) == len(set(lines)) == shown["checkpoint"]["size"]
    store = receiver.store
    for folder, status in (("records", "accepted"), ("quarantine", "quarantined")):
        lying = {path.name.split(".")[0] for path in (store / folder).glob("*")}
        assert lying == {sha256 for sha256, found in states.items() if found == status}
        for sha256 in lying:
            content = (store / folder / f"{sha256}.json").read_bytes()
            assert sha256_hex(content) == sha256
            of = Record.from_canonical(content, sha256)
            blobs = build.blobs(of)
            assert all(
                sha256_hex((store / "blobs/sha256" / name).read_bytes()) == name for name in blobs if blobs[name]
            )
    verdicts = {path.name for path in (store / "verdicts").iterdir()}
    assert verdicts == {Path(one["verdictPath"]).name for one in shown["decisions"]}
    assert not list(store.glob(".incoming-*"))
    assert not list((store / "pending").iterdir())


def test_an_intake_that_is_killed_at_any_step_is_finished_by_the_next(
    sender: Sender, receiver: Receiver, tmp_path: Path
) -> None:
    """Row P10: kill -9 before every write that is to last, every rename, every removal; then the same command."""
    folder, wanted = mixed(sender)
    kept = tmp_path / "kept"
    shutil.copytree(receiver.home, kept)
    words = receiver.words("intake", folder, sender)
    step = 0
    while killed_at(step, lambda: run([*words, "--json"])):
        receiver.intake(folder, sender, status=7)
        assert_whole(receiver, wanted)
        shutil.rmtree(receiver.home)
        shutil.copytree(kept, receiver.home)
        step += 1
    assert_whole(receiver, wanted)
    assert step > 30


@pytest.mark.parametrize("act", ["release", "refuse"])
def test_an_act_that_is_killed_at_any_step_was_done_or_can_be_done(
    sender: Sender, receiver: Receiver, tmp_path: Path, act: str
) -> None:
    """Row P10: afterwards the record is where its state says; who was not done does it again."""
    doubtful = equal_walls()
    sha256 = sha256_hex(doubtful.canonical())
    receiver.intake(sender.submission(doubtful), sender, status=7)
    kept = tmp_path / "kept"
    shutil.copytree(receiver.home, kept)
    words = ["submission", act, str(receiver.store), sha256, "--reason", "seen"]
    after = {"release": "accepted", "refuse": "excluded"}[act]
    step = 0
    while killed_at(step, lambda: run([*words, "--json"])):
        output._emitted = False
        [stands] = [one for one in receiver.shown()["records"] if one["record"] == sha256]
        assert stands["status"] in ("quarantined", after)
        receiver.json(*words, status=2 if stands["status"] == after else 0)
        receiver.intake(sender.submission(genuine(hour=3), to="next"), sender)
        assert (receiver.store / f"records/{sha256}.json").exists() == (after == "accepted")
        assert not (receiver.store / f"quarantine/{sha256}.json").exists()
        shutil.rmtree(receiver.home)
        shutil.copytree(kept, receiver.home)
        step += 1
    assert step > 10


def _at_once(receiver: Receiver, *folders: Path, sender: Sender) -> list[Any]:
    """All typed at the same time, in processes of their own."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "appliance.cli.main", *receiver.words("intake", folder, sender), "--json"],
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    ended = [(process, *process.communicate()) for process in started]
    for process, _, said in ended:
        assert process.returncode in (0, 7), said
        assert "Traceback" not in said
    return [json.loads(out) for _, out, _ in ended]


def test_two_intakes_at_once_take_turns(sender: Sender, receiver: Receiver) -> None:
    """Row P10: of two submissions both are in; of one that is sent twice, one is in and the other is replayed."""
    folders = [sender.submission(genuine(hour=hour), to=f"sent{hour}") for hour in (1, 2, 3)]
    found = _at_once(receiver, *folders, folders[0], sender=sender)
    assert sorted(one["records"][0]["status"] for one in found) == ["accepted", "accepted", "accepted", "excluded"]
    [refused] = [one["records"][0] for one in found if one["excluded"]]
    assert refused["reasons"][0]["word"] == "replayed"
    shown = receiver.shown()
    assert shown["checkpoint"]["size"] == 5
    assert [one["status"] for one in shown["records"]] == ["accepted"] * 4


def test_two_first_intakes_at_once_make_one_store(sender: Sender, receiver: Receiver, tmp_path: Path) -> None:
    """Row P10: whoever is second finds the store that the first one made."""
    fresh = Receiver(tmp_path / "receiver", receiver.capsys)
    folders = [sender.submission(genuine(hour=hour), to=f"sent{hour}") for hour in (1, 2)]
    new = tmp_path / "receiver/new"
    words = [
        [str(new) if word == str(fresh.store) else word for word in fresh.words("intake", folder, sender)]
        for folder in folders
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "appliance.cli.main", *one], cwd=_ROOT, stderr=subprocess.PIPE, text=True
        )
        for one in words
    ]
    for process in started:
        _, said = process.communicate()
        assert process.returncode == 0, said
    shown = fresh.json("submission", "show", str(new))
    assert [one["status"] for one in shown["records"]] == ["accepted"] * 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 512 * KIB) as found:
        yield found


@pytest.mark.root
@pytest.mark.parametrize("left", [0, 16 * KIB, 48 * KIB, 80 * KIB, 112 * KIB, 144 * KIB])
def test_an_intake_on_a_full_disk_is_one_line_and_the_next_one_finishes(
    sender: Sender, receiver: Receiver, disk: Path, left: int
) -> None:
    """Row P10: before the copy, inside it, at the verdicts, at the index; what counted before still does (status 4)."""
    store = disk / "store"
    before = sender.submission(genuine(hour=4), to="first")
    words = [str(store) if word == str(receiver.store) else word for word in receiver.words("intake", before, sender)]
    assert receiver.json(*words)["accepted"] == 1
    folder, wanted = mixed(sender)
    words[2] = str(folder)
    filled(disk, left)
    index = (store / "index.jsonl").read_bytes()
    refused = receiver.json(*words, status=4)
    assert (refused["error"]["reason"], refused["error"]["where"]) == ("disk_full", str(store))
    assert (store / "index.jsonl").read_bytes() == index
    assert not list(store.glob(".incoming-*"))
    shown = receiver.json("submission", "show", str(store))
    assert [one["status"] for one in shown["records"]] == ["accepted"]
    (disk / "filler").unlink()
    receiver.json(*words, status=7)
    states = {one["record"]: one["status"] for one in receiver.json("submission", "show", str(store))["records"]}
    assert {sha256: states[sha256] for sha256 in wanted} == wanted


def test_a_submission_is_only_ever_read(sender: Sender, receiver: Receiver) -> None:
    """Row P10: whatever becomes of it, it can be sent once more."""
    folder, _ = mixed(sender)
    before = files_of(folder)
    receiver.intake(folder, sender, status=7)
    assert files_of(folder) == before
