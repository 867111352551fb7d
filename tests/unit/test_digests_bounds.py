"""Trees over their bounds are refused for their lengths alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from appliance.digests import Bounds, tree_entries
from appliance.errors import InputRefused

_MIB = 1024 * 1024
BOUNDS = Bounds(file_mib=2, tree_mib=3, files=3)


def sparse(path: Path, size: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.truncate(path, size)


def test_a_tree_at_its_bounds_is_read(tmp_path: Path) -> None:
    """Each bound is a length, or a number, that is still allowed."""
    sparse(tmp_path / "a", 2 * _MIB)
    sparse(tmp_path / "in/b", _MIB)
    (tmp_path / "c").symlink_to("a")
    assert [path for path, _, _ in tree_entries(tmp_path, BOUNDS)] == ["a", "c", "in/b"]


@pytest.mark.parametrize(
    ("sizes", "where", "says"),
    [
        ({"ok": 1, "in/big": 2 * _MIB + 1}, "in/big", "3 MiB, over the bound of 2 MiB for one file"),
        ({"a": 2 * _MIB, "in/b": _MIB, "c": 1}, "", "over the bound of 3 MiB for all that lies in it"),
        ({"a": 0, "b": 0, "in/c": 0, "in/d": 0}, "", "over the bound of 3 files"),
    ],
)
def test_what_is_over_a_bound_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, int], where: str, says: str
) -> None:
    """Status 3, the file or the tree, and the mend; not a byte was hashed (issue 3, Bad input)."""
    for name, size in sizes.items():
        sparse(tmp_path / name, size)
    read: list[Path] = []
    monkeypatch.setattr("appliance.digests.sha256_of_file", read.append)
    with pytest.raises(InputRefused) as caught:
        tree_entries(tmp_path, BOUNDS)
    assert str(caught.value).startswith(f"{tmp_path / where}: {says}")
    assert caught.value.mend
    assert (caught.value.status, read) == (3, [])
