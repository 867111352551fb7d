"""The grader's container and what runs in it: who, where, with which environment (formats 7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from appliance.ports import ContainerSpec, ExecSpec, Mount
from appliance.records.plan import PlannedTask

GUEST: Final = Path(__file__).parent / "guest"
SUBJECT_PROGRAM: Final = GUEST / "subject.py"
"""To be found as /run/appliance/subject in a solver's container, so that it can run the tests that it sees."""

SUBJECT_USER: Final = "1000:1000"
JUDGE_USER: Final = "1001:1001"
LIB: Final = "/run/appliance/lib"
_JUDGE_LIMITS: Final = {"kept": 48 * 1024 * 1024, "slack": 60.0}
"""What the judge may say in all, and how long it may take beside test_cmd: to wait for the subject, to end, to read."""

# Process 1 of the container: no `kill -9 -1` from inside reaches it, and it reaps. `sleep` is 1001's, and comes again.
_FIRST: Final = ("sh", "-c", "while :; do sleep 2147483647 & wait; done")


def grader_spec(
    planned: PlannedTask,
    image: str,
    mounts: tuple[Mount, ...],
    labels: Mapping[str, str],
    cgroup: str | None,
) -> ContainerSpec:
    spec = planned.spec
    judge = spec.oracle.isolation == "user"
    return ContainerSpec(
        image=image,
        role="harness",
        labels=labels,
        limits=spec.limits,
        network="none",
        cgroup_parent=cgroup,
        mounts=(*mounts, _grade(1001 if judge else 1000, spec.limits.disk_mib)),
        user=JUDGE_USER,
        workdir="/",
        command=_FIRST,
        init=False,
    )


def judge_mounts(guest: Path, tests: Path | None) -> tuple[Mount, ...]:
    """`guest` holds our programs; `tests` None: /tests is a tmpfs that the judge fills itself."""
    folder = (
        Mount("bind", str(tests), "/tests", read_only=True)
        if tests is not None
        else Mount("tmpfs", "", "/tests", options="size=256m,uid=1001,gid=1001,mode=0700")
    )
    return (
        # The subject's socket is made here by user 1000; our programs are mounts of their own, which it cannot move.
        Mount("tmpfs", "", "/run/appliance", options="size=1m,uid=1000,gid=1000,mode=0755"),
        Mount("bind", str(guest), LIB, read_only=True),
        Mount("bind", str(guest / "subject"), "/run/appliance/subject", read_only=True),
        folder,
    )


def _grade(owner: int, disk_mib: int) -> Mount:
    return Mount("tmpfs", "", "/grade", options=f"size={min(disk_mib, 256)}m,uid={owner},gid={owner},mode=0700")


SUBJECT: Final = ExecSpec(
    argv=("python3", "-I", "-S", f"{LIB}/server.py"),
    user=SUBJECT_USER,
    workdir="/workspace",
    timeout_seconds=None,  # it waits for as long as the solver runs, and dies with the container at the latest
    capture_bytes=64 * 1024,
)

END_SUBJECT: Final = ExecSpec(("sh", "-c", "kill -9 -1 2>/dev/null; :"), SUBJECT_USER, "/", timeout_seconds=30)


def judge_exec(planned: PlannedTask, *, collect: bool = False) -> ExecSpec:
    spec = planned.spec
    order: dict[str, object] = {"report": spec.oracle.path}
    if collect:
        order["collect"] = True
    else:
        order |= {"testCmd": list(spec.test_cmd), "seconds": spec.limits.test_seconds, "subject": True}
    return ExecSpec(
        argv=_judge(order),
        user=JUDGE_USER,
        workdir="/tests",
        env=_JUDGE_ENV,
        timeout_seconds=spec.limits.test_seconds + _JUDGE_LIMITS["slack"],
        capture_bytes=int(_JUDGE_LIMITS["kept"]),
    )


def unpack_exec(tar: bytes) -> ExecSpec:
    return ExecSpec(_judge({"unpack": "/tests"}), JUDGE_USER, "/tests", stdin=tar, timeout_seconds=60)


_JUDGE_ENV: Final = {
    "HOME": "/grade/home",
    "TMPDIR": "/grade/tmp",
    "PYTHONSAFEPATH": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""Nothing of /workspace on a load path, and no folder that the solution's user could write to."""


def _judge(order: Mapping[str, object]) -> tuple[str, ...]:
    return ("python3", "-I", "-S", f"{LIB}/judge.py", json.dumps(order))


def open_test_exec(planned: PlannedTask) -> ExecSpec:
    """Isolation `none`: test_cmd as the solution's own user."""
    spec = planned.spec
    return ExecSpec(
        argv=spec.test_cmd,
        user=SUBJECT_USER,
        workdir="/workspace",
        timeout_seconds=spec.limits.test_seconds,
        capture_bytes=2 * 1024 * 1024,
    )


def open_collect_exec(planned: PlannedTask, mark: str) -> ExecSpec:
    """Isolation `none`: end every process of the solution's user, then the report, then what had no route.

    `mark` stands before and after the report: it is made anew for each grader, and only this exec prints it.
    """
    report = planned.spec.oracle.path
    read = f'[ -f "$1" ] && [ ! -L "$1" ] && printf "%s\\n" "$2" && head -c {8 * 1024 * 1024} "$1"; ' if report else ""
    script = f'kill -9 -1 2>/dev/null; {read}printf "\\n%s\\n" "$2"; cat /proc/net/snmp /proc/net/snmp6 2>/dev/null; :'
    return ExecSpec(
        argv=("sh", "-c", script, "sh", report or "", mark),
        user=SUBJECT_USER,
        workdir="/",
        timeout_seconds=30,
        capture_bytes=32 * 1024 * 1024,
    )


MODULES: Final = ExecSpec(
    argv=(
        "python3", "-I", "-c",
        "import sys, pkgutil\n"
        "names = set(getattr(sys, 'stdlib_module_names', sys.builtin_module_names))\n"
        "names.update(module.name for module in pkgutil.iter_modules())\n"
        "print('\\n'.join(sorted(names)))",
    ),
    user=JUDGE_USER,
    workdir="/",
    timeout_seconds=30,
)  # fmt: skip
"""Every top-level module that the image's Python can import, a line each."""


def git_apply_exec(patch: bytes) -> ExecSpec:
    """On the pristine workspace, before anything of the solution lies in it."""
    return ExecSpec(
        argv=("git", "apply", "--check", "--whitespace=nowarn", "-"),
        user=SUBJECT_USER,
        workdir="/workspace",
        env={"GIT_CEILING_DIRECTORIES": "/", "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent"},
        stdin=patch,
        timeout_seconds=60,
        capture_bytes=64 * 1024,
    )
