"""Lists of enrolled keys: what a reader sees of one is what counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from attest import Refused
from attest.tpm import read_enrolled

KEY, OTHER = "000b" + "a" * 64, "000b" + "b" * 64


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\r"])
def test_no_remark_enrols_a_key(tmp_path: Path, end: str) -> None:
    """Characters that some call the end of a line are part of a remark, or refused where they are no ASCII."""
    path = tmp_path / "keys"
    path.write_bytes(f"{KEY}  # rack 3{end}{OTHER}\n".encode())
    if end.isascii():
        assert read_enrolled(path) == {KEY}
        return
    with pytest.raises(Refused, match="no ASCII") as refused:
        read_enrolled(path)
    assert (refused.value.reason, refused.value.where) == ("policy", f"{path}:1")


def test_a_list_of_either_systems_lines_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_bytes(f"# ours\r\n\r\n{KEY}\r\n{OTHER}  # rack 3".encode())
    assert read_enrolled(path) == {KEY, OTHER}


def test_a_list_over_its_bound_is_refused_and_never_cut(tmp_path: Path) -> None:
    """Cut, it would take no notice of what it does not hold any more."""
    path = tmp_path / "keys"
    path.write_bytes((KEY + "\n").encode() + b"#" * (1024 * 1024))
    with pytest.raises(Refused, match="over the bound") as refused:
        read_enrolled(path)
    assert (refused.value.reason, refused.value.where) == ("policy", str(path))
