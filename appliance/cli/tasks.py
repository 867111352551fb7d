"""`appliance tasks`: suites, their tasks, their checks, and what becomes a suite."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli import output
from appliance.cli.listing import show_listing
from appliance.cli.tasks_check import check

if TYPE_CHECKING:
    from appliance.tasks.find import Found
    from appliance.tasks.model import Suite, Task

app = typer.Typer()

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
SuiteName = Annotated[str, typer.Argument(metavar="SUITE", help="A path, or a name in ./tasks or among the bundled.")]


@app.command("list")
def list_suites(
    suite: Annotated[str | None, typer.Argument(metavar="[SUITE]", help="Its tasks; all suites by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Suites, or the tasks of one."""
    if suite is not None:
        _list_tasks(suite, as_json)
        return
    from appliance.tasks.reader import list_suites as known
    from appliance.tasks.reader import read_suite

    def line(row: dict[str, Any]) -> str:
        state = row["problem"] or f"{row['tasks']} tasks  version {row['version']}  {row['digest'][:12]}{_checked(row)}"
        return f"{row['name']:<20} {row['source']:<8} {state}"

    def read(found: Found) -> dict[str, Any]:
        return _suite_row(read_suite(found.folder)) | {"name": found.name}

    rows = [
        ({"name": found.name, "folder": str(found.folder), "source": found.source}, partial(read, found))
        for found in known(Path.cwd())
    ]
    show_listing(rows, line, as_json=as_json)


@app.command()
def show(
    suite: SuiteName,
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="One task; the whole suite by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """A suite, or one task: prompt, image, limits, oracle, files."""
    read = _read(suite)
    if task is None:
        _show_suite(read, as_json)
    else:
        _show_task(read, _task(read, task), as_json)


@app.command("import")
def import_suite(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="human-eval")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to make; it must not be there yet.")],
    as_json: AsJson = False,
) -> None:
    """Turn somebody else's benchmark into a suite on disk."""
    from appliance.errors import UsageRefused

    if kind != "human-eval":
        raise UsageRefused(f"nothing here imports {kind!r}", mend="known: human-eval")
    from appliance.importers.human_eval import import_human_eval

    suite = import_human_eval(out)
    if as_json:
        output.emit_json(_suite_row(suite))
    else:
        output.line(f"{out}: {len(suite.tasks)} tasks, digest {suite.digest}")
        output.note(f"check it: appliance tasks check {out}")


app.command("check")(check)


def _read(name: str) -> Suite:
    from appliance.tasks.reader import find_suite, read_suite

    return read_suite(find_suite(name, Path.cwd()))


def _task(suite: Suite, name: str) -> Task:
    from appliance.errors import UsageRefused

    found = next((task for task in suite.tasks if task.spec.name == name), None)
    if found is None:
        known = ", ".join(task.spec.name for task in suite.tasks[:20])
        more = f" and {len(suite.tasks) - 20} more" if len(suite.tasks) > 20 else ""
        raise UsageRefused(f"no task {name!r} in suite {suite.name}", mend=f"known: {known}{more}")
    return found


def _suite_row(suite: Suite) -> dict[str, Any]:
    from appliance.tasks.checks import are_stale, read_checks

    stored = read_checks(suite.folder, suite.digest)
    return {
        "name": suite.name,
        "version": suite.version,
        "license": suite.license,
        "folder": str(suite.folder),
        "digest": suite.digest,
        "tasks": len(suite.tasks),
        "timeoutResolves": suite.timeout_resolves,
        "weight": suite.weight,
        "checksDigest": suite.checks_digest,
        "checksStale": stored is None and are_stale(suite.folder, suite.digest),
        "checkedTasks": len(stored.value.rates) if stored else 0,
        "quarantined": suite.quarantined,
        "forgeable": {name: list(forgers) for name, forgers in suite.forgeable.items()},
    }


def _checked(row: dict[str, Any]) -> str:
    if row["checksDigest"] is None:
        name = row["name"]
        return (
            f"  changed since it was checked: `appliance tasks check {name}`" if row["checksStale"] else "  not checked"
        )
    out, forged = len(row["quarantined"]), len(row["forgeable"])
    some = "" if row["checkedTasks"] == row["tasks"] else f"{row['checkedTasks']} of {row['tasks']} "
    return f"  {some}checked{f', {out} quarantined' if out else ''}{f', {forged} forgeable' if forged else ''}"


def _task_row(suite: Suite, task: Task) -> dict[str, Any]:
    return {
        **task.spec.json_value(),
        "folder": str(task.folder),
        "reference": str(task.reference) if task.reference else None,
        "quarantined": suite.quarantined.get(task.spec.name),
        "forgeable": list(suite.forgeable.get(task.spec.name, ())),
    }


def _list_tasks(name: str, as_json: bool) -> None:
    suite = _read(name)
    if as_json:
        output.emit_json([_task_row(suite, task) for task in suite.tasks])
        return
    for task in suite.tasks:
        oracle = task.spec.oracle
        ids = f"{len(oracle.fail_to_pass)} to fix, {len(oracle.pass_to_pass)} to keep" if oracle.lists_ids else "exit"
        output.line(f"{task.spec.name:<28} {task.spec.image[:19]:<8} {oracle.format:<9} {ids}{_marks(suite, task)}")


def _marks(suite: Suite, task: Task) -> str:
    marks = []
    if task.spec.name in suite.quarantined:
        marks.append(f"quarantined: {suite.quarantined[task.spec.name]}")
    if task.spec.name in suite.forgeable:
        marks.append(f"forgeable by {', '.join(suite.forgeable[task.spec.name])}")
    if task.reference is None:
        marks.append("no reference")
    return f"  ({'; '.join(marks)})" if marks else ""


def _show_suite(suite: Suite, as_json: bool) -> None:
    row = _suite_row(suite)
    if as_json:
        output.emit_json({**row, "tasks": [task.spec.json_value() for task in suite.tasks]})
        return
    output.line(f"{suite.name} version {suite.version}, {len(suite.tasks)} tasks{_checked(row)}")
    for word, value in (("folder", suite.folder), ("digest", suite.digest), ("license", suite.license or "not said")):
        output.line(f"  {word:<10} {value}")
    if not suite.timeout_resolves:
        output.line("  a trial that ran into its limit is unresolved whatever the tests say")
    for task in suite.tasks:
        output.line(f"  - {task.spec.name}{_marks(suite, task)}")


def _show_task(suite: Suite, task: Task, as_json: bool) -> None:
    spec = task.spec
    if as_json:
        output.emit_json(_task_row(suite, task))
        return
    limits = spec.limits
    output.line(f"{suite.name} / {spec.name}{_marks(suite, task)}")
    for word, value in (
        ("folder", task.folder),
        ("digest", spec.digest),
        ("image", spec.image),
        ("network", spec.network),
        ("test_cmd", " ".join(spec.test_cmd)),
        ("test_files", ", ".join(spec.test_files) or "none"),
        (
            "limits",
            f"{limits.wall_seconds:g} s, {limits.cpus:g} CPU, {limits.memory_mib} MiB, {limits.pids} pids, "
            f"{limits.disk_mib} MiB disk; tests {limits.test_seconds:g} s",
        ),
        ("oracle", f"{spec.oracle.format}, isolation {spec.oracle.isolation}"),
        ("reference", task.reference or "none"),
    ):
        output.line(f"  {word:<10} {value}")
    for word, ids in (("to fix", spec.oracle.fail_to_pass), ("to keep", spec.oracle.pass_to_pass)):
        for identifier in ids:
            output.line(f"  {word:<10} {identifier}")
    output.line()
    output.line(spec.prompt.rstrip())
