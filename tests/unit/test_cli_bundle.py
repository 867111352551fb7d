"""What ships with the program is the same however it was installed."""

from __future__ import annotations

import py_compile
import shutil
from pathlib import Path

import pytest

from appliance import bundle
from appliance.digests import tree_digest
from appliance.errors import HostRefused


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package as a wheel lays it out, one task in it, its code compiled as pip does."""
    monkeypatch.setattr(bundle, "_PACKAGE", tmp_path / "appliance")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tasks = tmp_path / "appliance" / "_bundle" / "tasks"
    (tasks / "small" / "one" / "before").mkdir(parents=True)
    (tasks / "small" / "one" / "before" / "one.py").write_text("ONE = 1\n")
    shutil.copytree(tasks, tmp_path / "as_built")
    py_compile.compile(str(tasks / "small" / "one" / "before" / "one.py"))
    return tasks


def test_tasks_come_without_what_pip_compiled(installed: Path, tmp_path: Path) -> None:
    """Byte code beside installed tasks is no part of them: the tree is the one that was built."""
    assert tree_digest(installed) != tree_digest(tmp_path / "as_built")
    assert tree_digest(bundle.shipped("tasks")) == tree_digest(tmp_path / "as_built")


def test_tasks_without_byte_code_stay_where_they_are(installed: Path) -> None:
    """An installer that compiles nothing costs no copy."""
    shutil.rmtree(installed / "small" / "one" / "before" / "__pycache__")
    assert bundle.shipped("tasks") == installed


@pytest.mark.usefixtures("installed")
def test_a_cache_that_takes_nothing_is_refused(tmp_path: Path) -> None:
    """The refusal names the place and the variable that mends it."""
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(HostRefused) as refusal:
        bundle.shipped("tasks")
    assert "XDG_CACHE_HOME" in str(refusal.value)
