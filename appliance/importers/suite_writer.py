"""Writing a suite to disk: a draft beside the target that is read back before it takes the target's name."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.errors import UsageRefused
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite

TomlValue = str | bool | int | float | Sequence[str]


@dataclass(frozen=True)
class DraftTask:
    """`tables` are task.toml's, the top one named ""; `files` are by path below the task's folder."""

    name: str
    tables: Mapping[str, Mapping[str, TomlValue]]
    files: Mapping[str, str]


def write_suite(out: Path, suite_toml: Mapping[str, TomlValue], tasks: Iterable[DraftTask]) -> Suite:
    """The suite as read back from `out`, which must not be there yet; it appears whole or not at all."""
    if out.exists() or out.is_symlink():
        raise UsageRefused("is there already", where=str(out), mend="remove it, or name another folder with --out")
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{out.name[:60]}.", dir=out.parent))
    except OSError as error:
        raise UsageRefused(
            error.strerror or str(error), where=str(out.parent), mend="make that folder first"
        ) from error
    try:
        (draft / "suite.toml").write_text(toml_table(suite_toml), encoding="utf-8")
        for task in tasks:
            _write_task(draft / task.name, task)
        read_suite(draft)
        draft.chmod(0o755)
        draft.rename(out)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return read_suite(out)


def toml_table(values: Mapping[str, TomlValue]) -> str:
    return "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _write_task(folder: Path, task: DraftTask) -> None:
    tables = [f"[{name}]\n{toml_table(values)}" if name else toml_table(values) for name, values in task.tables.items()]
    for path, content in {**task.files, "task.toml": "\n".join(tables)}.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")


def _toml(value: TomlValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str):
        return f"[{', '.join(_toml(item) for item in value)}]"
    if "\n" in value:
        lines = "\n".join(_escaped(line) for line in value.split("\n"))
        return f'"""\n{lines}"""'
    return f'"{_escaped(value)}"'


def _escaped(line: str) -> str:
    """JSON's escapes are TOML's, but for DEL; every quote is escaped, so none ends a longer text early."""
    return json.dumps(line, ensure_ascii=False)[1:-1].replace("\x7f", "\\u007f")
