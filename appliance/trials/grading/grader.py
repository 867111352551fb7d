"""Grading: a fresh container of the task's image, the pristine tree, what is allowed of the solution, the oracle."""

from __future__ import annotations

import shutil
import tempfile
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.digests import digest_of_entries, sha256_hex
from appliance.ports import (
    Captured,
    Changes,
    Engine,
    EngineFailed,
    ExecOutcome,
    ExecSpec,
    Mount,
    Workspace,
    Workspaces,
)
from appliance.records.plan import PlannedTask
from appliance.records.trial import Baseline, Grade
from appliance.records.words import Outcome, Reason
from appliance.tasks.model import Task
from appliance.trials.grading import container as inside
from appliance.trials.grading.patch import PatchTooLarge, patch_of
from appliance.trials.grading.restored import Sifted, sift
from appliance.trials.grading.seen import Seen, cut_off, frame_of, open_report, seen_in, statuses_of, words_of
from appliance.trials.grading.tests_tree import TestsTree, copy_tests
from appliance.trials.grading.tree import FileChange, Node, after, file_changes, pristine_nodes, shown
from appliance.trials.grading.verdict import OracleRun, baseline_verdict, verdict
from attest import canonical


@dataclass
class ReadyGrader:
    """A started container with the pristine workspace and the tests; good for one `grade`, then gone."""

    task: Task
    planned: PlannedTask
    image: str
    container: str
    workspace: Workspace
    tests: TestsTree
    scratch: Path
    subject: _Subject | None = None


@dataclass(frozen=True)
class Graded:
    outcome: Outcome
    reason: Reason | None
    detail: str | None
    grade: Grade
    changed: tuple[str, ...]
    """Every path that the solver changed, restored ones included."""
    restored: tuple[str, ...]
    dropped: tuple[str, ...]
    patch: bytes | None
    """All that the solver changed, as `git apply` takes it; None where it is larger than is kept."""
    patch_problem: str | None
    """Why there is none, or what `git apply --check` had against it. None also where there was no git to ask."""
    stdout: Captured
    stderr: Captured
    report: bytes | None
    unrouted: int | None
    """Packets that found no route: the tests reached for a network (row H10). None: not readable."""


class Grader:
    """Thread-safe. `scratch` is a folder of the run; it is left as it was found.

    Raises EngineFailed where the engine did not do its part: `excluded: grader_error`, never a score.
    """

    def __init__(
        self,
        engine: Engine,
        workspaces: Workspaces,
        labels: Mapping[str, str],
        cgroup: Callable[[], str | None],
        scratch: Path,
        *,
        bind_tests: bool = True,
    ):
        """`bind_tests`: the engine is local and we may own files as 1001 (root); else the tests go in over stdin."""
        self._engine = engine
        self._workspaces = workspaces
        self._labels = dict(labels)
        self._cgroup = cgroup
        self._scratch = scratch
        self._bind_tests = bind_tests
        self._modules: dict[str, frozenset[str]] = {}
        self._guest: Path | None = None
        self._lock = threading.Lock()

    def ready(self, task: Task, planned: PlannedTask, image_id: str) -> ReadyGrader:
        """May be called while the solver still runs: nothing of it is needed, and nothing of this can it reach."""
        judged = planned.spec.oracle.isolation == "user"
        self._scratch.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix="grade-", dir=self._scratch))
        workspace: Workspace | None = None
        container: str | None = None
        try:
            bind = judged and self._bind_tests
            tests = copy_tests(task, planned.spec.test_files, scratch / "tests", for_judge=bind)
            workspace = self._workspaces.open(task.before, planned.spec.limits.disk_mib, self._labels)
            mounts: tuple[Mount, ...] = (workspace.mount,)
            if judged:
                mounts += inside.judge_mounts(self._guest_folder(), tests.root if bind else None)
            spec = inside.grader_spec(planned, image_id, mounts, self._labels, self._cgroup())
            container = self._engine.create(spec)
            self._engine.start(container)
            workspace.seed(container)
            ready = ReadyGrader(task, planned, image_id, container, workspace, tests, scratch)
            if judged:
                if not bind:
                    self._unpack(ready)
                ready.subject = _Subject(self._engine, container)
            return ready
        except BaseException:
            self._end(container, workspace, scratch)
            raise

    def grade(self, ready: ReadyGrader, changes: Changes) -> Graded:
        """The container is removed whatever happens."""
        try:
            spec = ready.planned.spec
            pristine = pristine_nodes(ready.task.before)
            changed = file_changes(pristine, after(pristine, changes.entries))
            sifted = self._sift(ready, pristine, changes)
            patch, problem = self._checked_patch(ready, changed)
            seen, run = self._oracle(ready, sifted)
            said = verdict(spec.oracle, run)
            return Graded(
                outcome=said.outcome,
                reason=said.reason,
                detail=said.detail,
                grade=said.grade,
                changed=tuple(shown(change.path) for change in changed),
                restored=tuple(shown(path) for path in sifted.restored),
                dropped=tuple(f"{shown(path)} ({why})" for path, why in changes.dropped),
                patch=patch,
                patch_problem=problem,
                stdout=seen.stdout,
                stderr=seen.stderr,
                report=seen.report,
                unrouted=seen.unrouted,
            )
        finally:
            self.discard(ready)

    def baseline(self, task: Task, planned: PlannedTask, image_id: str) -> tuple[Baseline, Captured, Captured]:
        """The oracle on the untouched workspace, with its output (rows J06, J07)."""
        return self.baseline_in(self.ready(task, planned, image_id))

    def baseline_in(self, ready: ReadyGrader) -> tuple[Baseline, Captured, Captured]:
        """As `baseline`, in a container that is there already; it is removed whatever happens."""
        planned = ready.planned
        try:
            seen, run = self._oracle(ready, Sifted((), ()))
        finally:
            self.discard(ready)
        said = baseline_verdict(planned.spec.oracle, run)
        value = Baseline(
            task=planned.spec.name,
            image=planned.images.task.config,
            exit=run.exit,
            timed_out=run.timed_out,
            ids=said.ids,
            verdict=said.verdict,
            detail=said.detail,
            digest=baseline_digest(planned),
            output=None,
        )
        return value, seen.stdout, seen.stderr

    def look(self, ready: ReadyGrader, spec: ExecSpec) -> ExecOutcome:
        """Run something of ours in it, before anything of a solution is there."""
        return self._engine.execute(ready.container, spec)

    def discard(self, ready: ReadyGrader) -> None:
        self._end(ready.container, ready.workspace, ready.scratch)
        if ready.subject is not None:
            ready.subject.join()

    # ------------------------------------------------------------------------------------------ steps

    def _end(self, container: str | None, workspace: Workspace | None, scratch: Path) -> None:
        try:
            if container is not None:
                self._engine.remove(container)
        finally:
            if workspace is not None:
                workspace.close()
            shutil.rmtree(scratch, ignore_errors=True)

    def _guest_folder(self) -> Path:
        """Our programs for the container, copied once so that their modes are right whatever the checkout's are."""
        with self._lock:
            if self._guest is None or not self._guest.is_dir():
                folder = self._scratch / "guest"
                folder.mkdir(mode=0o755, parents=True, exist_ok=True)
                for name, source in (
                    ("subject", "subject.py"),
                    ("subject.py", "subject.py"),
                    ("server.py", "server.py"),
                    ("judge.py", "judge.py"),
                ):
                    place = folder / name
                    place.unlink(missing_ok=True)
                    shutil.copyfile(inside.GUEST / source, place)
                    place.chmod(0o755)
                folder.chmod(0o755)
                self._guest = folder
            return self._guest

    def _unpack(self, ready: ReadyGrader) -> None:
        said = self._engine.execute(ready.container, inside.unpack_exec(ready.tests.tar()))
        if said.exit != 0:
            raise EngineFailed(f"the tests could not be put into the grader's container: {words_of(said)}")

    def _sift(self, ready: ReadyGrader, pristine: Mapping[bytes, Node], changes: Changes) -> Sifted:
        spec = ready.planned.spec
        return sift(
            pristine,
            changes.entries,
            test_files=spec.test_files,
            protected=spec.protected,
            allow=spec.allow,
            modules=lambda: self._modules_of(ready),
        )

    def _modules_of(self, ready: ReadyGrader) -> frozenset[str]:
        """Asked of the image once; an image without Python has no modules to shadow."""
        if ready.image not in self._modules:
            said = self._engine.execute(ready.container, inside.MODULES)
            if said.exit not in (0, 126, 127) and said.start_error is None:
                raise EngineFailed(f"the modules of the image could not be listed: {words_of(said)}")
            names = said.stdout.kept.decode("utf-8", "replace").split() if said.exit == 0 else []
            self._modules[ready.image] = frozenset(names)
        return self._modules[ready.image]

    def _checked_patch(self, ready: ReadyGrader, changed: Sequence[FileChange]) -> tuple[bytes | None, str | None]:
        try:
            patch = patch_of(changed)
        except PatchTooLarge as error:
            return None, f"not kept: {error}"
        return patch, self._patch_problem(ready, patch)

    def _patch_problem(self, ready: ReadyGrader, patch: bytes) -> str | None:
        if not patch:
            return None
        said = self._engine.execute(ready.container, inside.git_apply_exec(patch))
        # 1 and 128 are git's own words. Killed, as by a limit that a huge patch meets, it has said nothing.
        return words_of(said) if said.exit in (1, 128) and said.start_error is None else None

    def _oracle(self, ready: ReadyGrader, sifted: Sifted) -> tuple[Seen, OracleRun]:
        judged = ready.planned.spec.oracle.isolation == "user"
        entries = sifted.allowed if judged else (*sifted.allowed, *ready.tests.entries())
        if entries:
            ready.workspace.lay(ready.container, entries)
        seen = self._judged(ready) if judged else self._open(ready)
        statuses, problem = statuses_of(ready.planned.spec.oracle, seen, ready.tests.paths)
        run = OracleRun(
            exit=seen.exit,
            timed_out=seen.timed_out,
            start_error=seen.start_error,
            statuses=statuses,
            report_problem=problem,
            tests_digest_before=ready.tests.digest,
            tests_digest_after=seen.tests_digest,
        )
        return seen, run

    # ------------------------------------------------------------------------------------------ isolation: user

    def _judged(self, ready: ReadyGrader) -> Seen:
        said = self._engine.execute(ready.container, inside.judge_exec(ready.planned))
        frame = frame_of(said)
        if frame is None:
            if said.start_error is not None:
                return cut_off(said.start_error, said)
            return cut_off(f"the judge was cut off (exit {said.exit})", said)
        if frame.get("subjectMissing"):
            raise EngineFailed(f"the subject's server did not start: {ready.subject and ready.subject.trouble}")
        if not frame["alone"]:
            frame = self._collected(ready, frame)
        return seen_in(frame)

    def _collected(self, ready: ReadyGrader, frame: dict[str, Any]) -> dict[str, Any]:
        """Processes of the solution outlived the judge: end them from outside, and read again."""
        try:
            self._engine.execute(ready.container, inside.END_SUBJECT)
            again = frame_of(self._engine.execute(ready.container, inside.judge_exec(ready.planned, collect=True)))
        except EngineFailed:
            again = None  # a solution that leaves no room for one more process has prevented its verdict
        if again is None or not again["alone"]:
            return frame | {"report": None, "testsDigest": None}
        return frame | again

    # ------------------------------------------------------------------------------------------ isolation: none

    def _open(self, ready: ReadyGrader) -> Seen:
        """Forgeable by nature: tests and solution are one user's. What can be kept out without isolation is."""
        said = self._engine.execute(ready.container, inside.open_test_exec(ready.planned))
        mark = uuid.uuid4().hex
        content: bytes | None = None
        unrouted: int | None = None
        try:
            collected = self._engine.execute(ready.container, inside.open_collect_exec(ready.planned, mark))
            content, unrouted = open_report(collected.stdout, mark.encode())
        except EngineFailed:
            pass  # as above: no report is no verdict
        self._engine.remove(ready.container)
        digest = _digest_after(ready)
        return Seen(said.exit, said.timed_out, said.start_error, said.stdout, said.stderr, content, digest, unrouted)


def baseline_digest(planned: PlannedTask) -> str:
    """What a baseline depends on: the task (files, command, oracle, limits) and its image (row H21)."""
    form = {"spec": planned.spec.json_value(), "image": planned.images.task.json_value()}
    return sha256_hex(canonical.dumps(form))


class _Subject:
    """The subject's server: an exec that lives till the judge lets go of it, or the container dies."""

    def __init__(self, engine: Engine, container: str):
        self.trouble: str | None = None
        self._thread = threading.Thread(target=self._run, args=(engine, container), daemon=True)
        self._thread.start()

    def _run(self, engine: Engine, container: str) -> None:
        try:
            said = engine.execute(container, inside.SUBJECT)
            self.trouble = said.start_error or words_of(said)
        except EngineFailed as error:
            self.trouble = str(error)  # also where the container was removed under it: then nobody asks

    def join(self) -> None:
        self._thread.join(timeout=30)


def _digest_after(ready: ReadyGrader) -> str:
    """Of the tests in the workspace of a container that is gone."""
    pristine = pristine_nodes(ready.task.before)
    nodes = after(pristine, ready.workspace.harvest().entries)
    found = []
    for path in sorted(ready.tests.paths, key=str.encode):
        node = nodes.get(path.encode())
        if node is not None and node.mode == "link":
            found.append((path, "link", node.content.decode("utf-8", "backslashreplace")))
        elif node is not None:
            found.append((path, node.mode, sha256_hex(node.content)))
    return digest_of_entries(found)
