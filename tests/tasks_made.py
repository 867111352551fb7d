"""Small suites on disk for tests of the readers."""

from __future__ import annotations

from pathlib import Path

TASK_TOML = """\
name = "{name}"
prompt = "Make it one."
test_cmd = ["python3", "test_it.py"]
test_files = ["test_it.py"]
"""


def make_task(suite: Path, name: str = "one", toml: str = TASK_TOML, *, reference: bool = True) -> Path:
    """A valid task with a hidden test and a reference; `{name}` in `toml` is filled in."""
    folder = suite / name
    for part in ("before", "tests", *(["reference"] if reference else [])):
        (folder / part).mkdir(parents=True)
    (folder / "task.toml").write_text(toml.replace("{name}", name), encoding="utf-8")
    (folder / "before" / "it.py").write_text("VALUE = 0\n")
    (folder / "tests" / "test_it.py").write_text("import it\nassert it.VALUE == 1\n")
    if reference:
        (folder / "reference" / "it.py").write_text("VALUE = 1\n")
    return folder
