"""Names of images that a registry has: which ones a task may use, and what a digest stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused
from appliance.images import registry
from appliance.images.lock import LockedPackage
from appliance.pins import Pin
from appliance.tasks.reader import read_suite
from tests.trials_suites import write_suite

DIGEST = f"sha256:{7:064x}"
TAKEN = [
    f"registry.example/team/tool@{DIGEST}",
    f"127.0.0.1:5000/x@{DIGEST}",
    f"localhost/a_b/c__d/e-f.g@{DIGEST}",
]
REFUSED = {
    "a tag": "registry.example/tool:latest",
    "a tag beside a digest": f"registry.example/tool:latest@{DIGEST}",
    "no host": f"team/tool@{DIGEST}",
    "no repository": f"registry.example@{DIGEST}",
    "a digest that is cut off": f"registry.example/tool@{DIGEST[:-1]}",
    "capitals": f"registry.example/Tool@{DIGEST}",
    "a scheme": f"https://registry.example/tool@{DIGEST}",
    "a user": f"me@registry.example/tool@{DIGEST}",
    "a climb": f"registry.example/../tool@{DIGEST}",
    "a second line": f"registry.example/tool@{DIGEST}\n",
}


def _task(folder: Path, image: str) -> Path:
    suite = write_suite(folder, ("fix",))
    path = suite / "fix/task.toml"
    lines = [line for line in path.read_text().splitlines() if not line.startswith("image")]
    path.write_text("\n".join([f"image = {image!r}".replace("'", '"'), *lines]))
    return suite


@pytest.mark.parametrize("image", TAKEN)
def test_a_task_may_name_an_image_of_a_registry_by_its_manifest(tmp_path: Path, image: str) -> None:
    """Host, repository, digest (I6, I11)."""
    assert read_suite(_task(tmp_path, image)).tasks[0].spec.image == image
    reference = registry.parsed(image)
    assert reference == registry.Reference(image, DIGEST)


@pytest.mark.parametrize("image", REFUSED.values(), ids=REFUSED.keys())
def test_whatever_could_come_to_mean_another_image_is_refused(tmp_path: Path, image: str) -> None:
    """With file and key; a tag moves, a missing host is the engine's choice (H11, status 3)."""
    assert registry.parsed(image) is None
    with pytest.raises(InputRefused, match=r"task\.toml: image: .*HOST/REPOSITORY@sha256:\.\.\. \(a tag could move\)"):
        read_suite(_task(tmp_path, image))


def test_a_manifest_is_remembered_with_its_pin_and_with_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that was damaged, or lies under another's name, is none (I5)."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reference = registry.Reference(TAKEN[0], DIGEST)
    pin = Pin(config=f"sha256:{1:064x}", manifest=DIGEST, diff_ids=(f"sha256:{2:064x}",))
    assert registry.remembered(reference) is None
    registry.remember(reference, pin)
    assert registry.remembered(reference) == pin
    [note] = tmp_path.glob("bench-appliance/references/*.json")
    note.write_bytes(pin.model_copy(update={"manifest": pin.config}).canonical())
    assert registry.remembered(reference) is None
    note.write_bytes(b"{")
    assert registry.remembered(reference) is None


@pytest.mark.parametrize(
    ("kind", "version", "upstream"),
    [
        ("deb", "1:2.39.5-0+deb12u2", "2.39.5"),
        ("deb", "4:12.2.0-3", "12.2.0"),
        ("deb", "3.11.2-6+deb12u6", "3.11.2"),
        ("deb", "20230311", "20230311"),
        ("deb", "1:5.44", "5.44"),
        ("deb", "2.8.2+ds1-1", "2.8.2"),
        ("deb", "1.19.8~dfsg-1.2", "1.19.8"),
        ("deb", "2.0-rc1-3", "2.0-rc1"),
        ("deb", "1:1.2:3-4", "1.2:3"),
        ("wheel", "24.19.0", "24.19.0"),
        ("wheel", "1!2.0-1", "1!2.0-1"),
    ],
)
def test_a_locked_version_is_told_as_its_authors_count(kind: str, version: str, upstream: str) -> None:
    """Debian policy 5.6.12: an epoch and a revision may each be missing; what a program says of itself has neither."""
    content = {"kind": kind, "name": "x", "version": version, "sha256": "0" * 64, "bytes": 1, "path": "pool/x"}
    assert LockedPackage.model_validate(content).upstream_version == upstream
