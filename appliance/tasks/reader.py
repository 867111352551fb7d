"""Suites and tasks from disk, strictly: a value comes out, or one refusal that names file and key. Nothing is run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, cast

from appliance.digests import digest_of_entries
from appliance.errors import InputRefused
from appliance.pins import REFERENCE
from appliance.tasks.checks import read_checks
from appliance.tasks.find import Found, find_suite, list_suites
from appliance.tasks.model import Isolation, Limits, Network, OracleFormat, OracleSpec, Suite, Task, TaskSpec
from appliance.tasks.names import name_problem, relative_problem
from appliance.tasks.toml import Table, short
from appliance.tasks.tree import SUITE_TOML, Entry, entries_of_task, suite_entries, task_folders

__all__ = ["Found", "find_suite", "list_suites", "read_suite", "require_reference"]

TASK_KEYS: Final = (
    "name",
    "prompt",
    "test_cmd",
    "test_files",
    "image",
    "network",
    "protected",
    "allow",
    "limits",
    "oracle",
)
LIMIT_KEYS: Final = ("wall_seconds", "cpus", "memory_mib", "pids", "disk_mib", "test_seconds")
ORACLE_KEYS: Final = ("format", "path", "isolation", "fail_to_pass", "pass_to_pass")
SUITE_KEYS: Final = ("name", "version", "license", "timeout_resolves", "weight")

_WEEK_SECONDS: Final = 7 * 24 * 3600
_MOST_MIB: Final = 16 * 1024 * 1024
_IMAGE = re.compile(rf"sha256:[0-9a-f]{{64}}|[a-z0-9](?:[a-z0-9._-]{{0,126}}[a-z0-9])?|{REFERENCE.pattern}")


def read_suite(folder: Path) -> Suite:
    """The suite of a folder, every task checked. Raises InputRefused for the first problem, in order of task names."""
    try:
        return _suite(folder)
    except OSError as error:  # a folder that may not be searched, a name that is too long: wherever it was met
        where = str(error.filename or folder)
        raise InputRefused(error.strerror or str(error), where=where, mend="make it readable") from error


def _suite(folder: Path) -> Suite:
    if not folder.is_dir():
        raise InputRefused("not a folder", where=str(folder), mend="a suite is a folder of tasks")
    table = _suite_table(folder)
    folders = task_folders(folder)
    if not folders:
        raise InputRefused("holds no task", where=str(folder), mend="add a folder with task.toml and before/")
    read = [_read_task(path) for path in folders]
    digest = digest_of_entries(suite_entries(folder, [(task.folder, entries) for task, entries in read]))
    checks = read_checks(folder, digest)
    return Suite(
        name=_name(table, "name", folder.resolve().name),
        version=_nonempty(table, "version", "1"),
        license=table.optional_text("license"),
        weight=table.number("weight", 1.0, 1e-6, 1e6),
        timeout_resolves=table.flag("timeout_resolves", True),
        digest=digest,
        folder=folder,
        tasks=tuple(sorted((task for task, _ in read), key=lambda task: task.spec.name)),
        quarantined=dict(checks.value.quarantined) if checks else {},
        forgeable={name: tuple(forgers) for name, forgers in checks.value.forgeable.items()} if checks else {},
        checks_digest=checks.digest if checks else None,
    )


def require_reference(task: Task) -> Path:
    """The reference solution's path. Raises InputRefused where the task has none: only that solver needs it (J01)."""
    found = task.reference
    if found is None:
        raise InputRefused(
            "has neither reference/ nor reference.patch",
            where=str(task.folder),
            mend="add one, or leave the solver `reference` out",
        )
    return found


def _suite_table(folder: Path) -> Table:
    path = folder / SUITE_TOML
    table = Table.read(path) if path.exists() or path.is_symlink() else Table({}, str(path))
    table.only(*SUITE_KEYS)
    return table


def _read_task(folder: Path) -> tuple[Task, list[Entry]]:
    toml = folder / "task.toml"
    if toml.is_symlink() or not toml.is_file():
        raise InputRefused("no task.toml in this folder", where=str(folder), mend="add one, or move the folder away")
    _refuse_parts(folder)
    entries = entries_of_task(folder)
    if not any(path.startswith("before/") for path, _, _ in entries):
        raise InputRefused(
            "before/ holds no file", where=str(folder / "before"), mend="put one there, an empty .keep will do"
        )
    table = Table.read(toml)
    table.only(*TASK_KEYS)
    for key in ("name", "prompt", "test_cmd", "test_files"):
        table.required(key)
    name = _name(table, "name", "")
    if name != folder.name:
        raise table.refusal("name", f"{short(name)} is not the folder's name, {short(folder.name)}", "make them equal")
    spec = TaskSpec(
        name=name,
        digest=digest_of_entries(entries),
        prompt=_nonempty(table, "prompt", ""),
        test_cmd=table.command("test_cmd"),
        test_files=_test_files(table, folder),
        image=_image(table),
        network=cast(Network, table.word("network", ("none", "open"), "none")),
        protected=_globs(table, "protected"),
        allow=_globs(table, "allow"),
        limits=_limits(table.table("limits")),
        oracle=_oracle(table.table("oracle")),
    )
    return Task(spec=spec, folder=folder), entries


def _refuse_parts(folder: Path) -> None:
    """before/ is needed; the other parts may be missing, but not be something else."""
    for part in ("before", "reference", "tests"):
        path = folder / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise InputRefused("not a folder", where=str(path), mend="put the folder itself there")
    if not (folder / "before").is_dir():
        raise InputRefused(
            "no before/ in this task", where=str(folder), mend="add the folder that a solver starts from"
        )
    patch = folder / "reference.patch"
    if patch.exists() and (folder / "reference").exists():
        raise InputRefused("both reference/ and reference.patch", where=str(folder), mend="keep one")
    if patch.is_symlink() or (patch.exists() and not patch.is_file()):
        raise InputRefused("not a regular file", where=str(patch), mend="put the patch itself there")


def _name(table: Table, key: str, default: str) -> str:
    name = table.text(key, default)
    problem = name_problem(name)
    if problem:
        raise table.refusal(key, f"{short(name)} {problem}", "name it otherwise")
    return name


def _nonempty(table: Table, key: str, default: str) -> str:
    value = table.text(key, default)
    if not value.strip():
        raise table.refusal(key, "is empty")
    return value


def _image(table: Table) -> str:
    image = table.text("image", "base")
    if not _IMAGE.fullmatch(image):
        forms = "a name in images/, sha256: and 64 hex digits, or HOST/REPOSITORY@sha256:... (a tag could move)"
        raise table.refusal("image", f"{short(image)} is none of {forms}")
    return image


def _test_files(table: Table, folder: Path) -> tuple[str, ...]:
    files = table.texts("test_files")
    for index, relative in enumerate(files):
        key = f"test_files[{index}]"
        problem = relative_problem(relative)
        if problem:
            raise _at(table, key, f"{short(relative)} {problem}")
        found = next((root for root in ("tests", "before") if _lies_in(folder / root, relative)), None)
        if found is None:
            raise _at(table, key, f"{short(relative)} is in neither tests/ nor before/")
        if not (folder / found / relative).is_file() or _through_link(folder / found, relative):
            raise _at(table, key, f"{short(relative)} is not a regular file in {found}/", "list each file by itself")
    for relative in files:
        inside = next((other for other in files if other.startswith(f"{relative}/")), None)
        if inside is not None:
            raise table.refusal("test_files", f"{short(relative)} is a file, and the folder of {short(inside)}")
    return files


def _lies_in(root: Path, relative: str) -> bool:
    try:
        return (root / relative).exists() or (root / relative).is_symlink()
    except OSError:  # a name longer than the file system allows
        return False


def _through_link(root: Path, relative: str) -> bool:
    parts = relative.split("/")
    return any((root / Path(*parts[: count + 1])).is_symlink() for count in range(len(parts)))


def _globs(table: Table, key: str) -> tuple[str, ...]:
    patterns = table.texts(key)
    for index, pattern in enumerate(patterns):
        problem = relative_problem(pattern.removesuffix("/"))
        if problem:
            raise _at(table, f"{key}[{index}]", f"{short(pattern)} {problem}", "write it relative to the workspace")
    return patterns


def _at(table: Table, place: str, message: str, mend: str | None = None) -> InputRefused:
    key, _, index = place.partition("[")
    refusal = table.refusal(key, message, mend)
    refusal.where = f"{refusal.where}[{index}"
    return refusal


def _limits(table: Table) -> Limits:
    table.only(*LIMIT_KEYS)
    default = Limits()
    return Limits(
        wall_seconds=table.number("wall_seconds", default.wall_seconds, 0.1, _WEEK_SECONDS),
        cpus=table.number("cpus", default.cpus, 0.01, 1024),
        memory_mib=table.whole("memory_mib", default.memory_mib, 16, _MOST_MIB),
        pids=table.whole("pids", default.pids, 8, 4_194_304),
        disk_mib=table.whole("disk_mib", default.disk_mib, 8, _MOST_MIB),
        test_seconds=table.number("test_seconds", default.test_seconds, 0.1, _WEEK_SECONDS),
    )


def _oracle(table: Table) -> OracleSpec:
    table.only(*ORACLE_KEYS)
    fails, passes = table.texts("fail_to_pass"), table.texts("pass_to_pass")
    for key, ids in (("fail_to_pass", fails), ("pass_to_pass", passes)):
        if not all(identifier.strip() for identifier in ids):
            raise table.refusal(key, "holds an empty id")
    both = next((identifier for identifier in fails if identifier in passes), None)
    if both is not None:
        raise table.refusal("pass_to_pass", f"{short(both)} stands in fail_to_pass as well")
    listed = bool(fails or passes)
    form = table.word("format", ("junit", "tap", "exit_code"), "junit" if listed else "exit_code")
    if listed and form == "exit_code":
        raise table.refusal("format", "an exit code names no test ids", "use junit or tap, or list no ids")
    if not listed and form != "exit_code":
        raise table.refusal("format", f"{form} needs fail_to_pass or pass_to_pass", "list the ids that decide")
    return OracleSpec(
        format=cast(OracleFormat, form),
        path=_report_path(table, form),
        isolation=cast(Isolation, table.word("isolation", ("user", "none"), "none")),
        fail_to_pass=fails,
        pass_to_pass=passes,
    )


def _report_path(table: Table, form: str) -> str | None:
    path = table.optional_text("path")
    if form != "junit":
        if path is not None:
            raise table.refusal("path", f"is for junit only, and the format is {form}", "remove it")
        return None
    if path is None:
        raise table.refusal("path", "required with junit", "the file that test_cmd writes, as /grade/result.xml")
    if not path.startswith("/grade/") or relative_problem(path.removeprefix("/grade/")):
        raise table.refusal("path", f"{short(path)} is not a file in /grade/", "as /grade/result.xml")
    return path
