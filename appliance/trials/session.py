"""A run from its plans to its records: locks, journal, trials, fold. `run` and `reproduce` both come this way."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from appliance.digests import sha256_hex
from appliance.host.fitness import refuse_unfit
from appliance.ports import LOCK_LABEL, RUN_LABEL
from appliance.records import journal
from appliance.records.journal_file import JournalFile
from appliance.records.outline import AnyTrial, RecordOutline
from appliance.records.plan import PlannedTask, TrialPlan, trial_keys
from appliance.records.record import HostStamp, Record
from appliance.records.trial import Baseline
from appliance.solvers.definition import SolverDefinition
from appliance.tasks.archive import archive_suite
from appliance.tasks.model import Suite, Task
from appliance.trials.attempt import cut_off, now
from appliance.trials.baselines import Baselines
from appliance.trials.bench import Bench, Trial
from appliance.trials.cascades import ask_who, program_of
from appliance.trials.folder import JournalWriter, RunFolder, refuse_taken, resume_folder, start_folder
from appliance.trials.folding import Folding, Written, write_records
from appliance.trials.grading.grader import Grader
from appliance.trials.matching import pins_of, refuse_strangers
from appliance.trials.models import Models, spent_by_gateway
from appliance.trials.outcomes import worth_another_try
from appliance.trials.parts import Adapters, RunEnded, RunOptions, new_run_id
from appliance.trials.resting import IDLE_SECONDS, Rests
from appliance.trials.room import Roomier
from appliance.trials.runner import Runner, Signalled, Tally, Watcher
from appliance.trials.sources import Sources
from appliance.trials.stamps import harness_stamp
from appliance.trials.stopping import RunStopped, Stop, signals
from appliance.trials.turns import Turns
from appliance.trials.versions import program_version, refuse_other_version

__all__ = ["Adapters", "RunEnded", "RunOptions", "new_run_id", "run_plans"]

_SIGNALLED: Final = 128


def run_plans(
    plans: tuple[TrialPlan, ...],
    suite: Suite,
    *,
    solvers: Mapping[str, SolverDefinition],
    adapters: Adapters,
    out: Path,
    options: RunOptions,
    watcher: Watcher,
) -> RunEnded:
    """Run what the journal in `out` does not hold yet, and write a record a plan.

    Raises RunStopped (130, 143) after a signal and MeterRefused where the meter is gone for good, with the records of
    what had finished written; InputRefused where suite or solver are not the planned ones; HostRefused where images
    or the host are not fit.
    """
    refuse_strangers(plans, suite, solvers)
    folder = RunFolder(out)
    before: JournalFile | None = None
    if options.resume:
        before = resume_folder(folder, plans, harness_stamp())
    else:
        refuse_taken(folder)
    session = _Session(plans, suite, solvers=solvers, adapters=adapters, folder=folder, options=options, before=before)
    todo = session.todo()
    whole = all(folder.record(plan.solver.name).exists() for plan in plans)
    if before is not None and whole and not todo and not session.lacks_rest():
        return session.unchanged()
    fitness = adapters.host.fitness()
    if options.strict_host:
        refuse_unfit(fitness)
    with ExitStack() as stack:
        stack.enter_context(folder.taking())
        stack.enter_context(folder.alone())
        if before is None and not options.resume:
            # Until it was alone, another process may have begun a run here.
            refuse_taken(folder)
        lock = stack.enter_context(adapters.locks.hold(session.run))
        if any(plan.energy.scheduling == "exclusive" for plan in plans):
            stack.enter_context(adapters.exclusive())
        stack.enter_context(adapters.reaper(session.run, lock))
        stack.push(_reaping(adapters, session.run))
        stack.callback(shutil.rmtree, folder.in_flight, ignore_errors=True)
        stack.callback(adapters.meter.close_run, session.run)
        if before is not None:
            # Until it held the lock, another process may have gone on with the run.
            session = session.again(resume_folder(folder, plans, harness_stamp()))
            todo = session.todo()
        asked = session.asked(todo)
        pins = pins_of(asked, replays=options.replays is not None)
        image_ids = adapters.images.ensure(pins, [trial.planned for trial in asked])
        host = adapters.host.stamp(adapters.engine.stamp(), fitness)
        labels = {RUN_LABEL: session.run, LOCK_LABEL: str(lock)}
        session.ask_versions(asked, labels, image_ids)
        return session.sweep(todo, labels, image_ids, host, watcher)


def _reaping(adapters: Adapters, run: str) -> Callable[[object, BaseException | None, object], None]:
    """The end of a run, for an ExitStack: its leavings go now, or are the reaper's where somebody cannot wait."""

    def leave(_kind: object, error: BaseException | None, _trace: object) -> None:
        if not (isinstance(error, RunStopped) and error.hurried):
            adapters.reap(run)

    return leave


class _Session:
    def __init__(
        self,
        plans: tuple[TrialPlan, ...],
        suite: Suite,
        *,
        solvers: Mapping[str, SolverDefinition],
        adapters: Adapters,
        folder: RunFolder,
        options: RunOptions,
        before: JournalFile | None,
    ):
        self._plans = plans
        self._suite = suite
        self._solvers = solvers
        self._adapters = adapters
        self._folder = folder
        self._options = options
        self._before = before
        self._subjects = dict(options.subjects)
        self._remarks: dict[str, tuple[str, ...]] = {}
        self._rested = 0.0
        kept = before.header.idle_seconds if before else None
        self._idle_seconds = options.idle_seconds or kept or IDLE_SECONDS
        self.run = before.header.run_id if before else options.run or new_run_id()

    def again(self, before: JournalFile | None) -> _Session:
        return _Session(
            self._plans,
            self._suite,
            solvers=self._solvers,
            adapters=self._adapters,
            folder=self._folder,
            options=self._options,
            before=before,
        )

    def todo(self) -> tuple[Trial, ...]:
        """In the order of their index over all plans."""
        finished = self._before.finished() if self._before else {}
        return tuple(
            trial
            for trial in self._trials()
            if (self._options.only is None or trial.key in self._options.only)
            and (trial.index not in finished or self._retried(finished[trial.index]))
        )

    def lacks_rest(self) -> bool:
        """Whether the look after the last trial of an earlier start is still to be taken."""
        return self._adapters.meter.counts and self._before is not None and self._before.lacks_rest()

    def asked(self, todo: tuple[Trial, ...]) -> tuple[Trial, ...]:
        """`todo`, and a trial of every solver that has none left, whose program has to say its version again."""
        left = {trial.plan.solver.name for trial in todo}
        first = {trial.plan.solver.name: trial for trial in reversed(tuple(self._trials()))}
        unsaid = {
            name
            for name, solver in self._solvers.items()
            if name not in left
            and (solver.kind == "cascade" or (solver.version_argv is not None and self._subjects[name].version is None))
        }
        return (*todo, *(trial for name, trial in first.items() if name in unsaid))

    def _retried(self, result: AnyTrial) -> bool:
        return self._options.retry_errored and worth_another_try(result.outcome, result.reason)

    def _trials(self) -> Iterator[Trial]:
        index = 0
        there = {task.spec.name: task for task in self._suite.tasks}
        for plan in self._plans:
            digest = plan.digest
            program = program_of(self._solvers[plan.solver.name], plan, self._options.cascade_socket)
            tasks = {planned.spec.name: planned for planned in plan.tasks}
            for key in trial_keys(plan):
                yield Trial(index, plan, digest, key, tasks[key.task], there[key.task], program)
                index += 1

    def ask_versions(self, asked: tuple[Trial, ...], labels: Mapping[str, str], image_ids: Mapping[str, str]) -> None:
        """Once a solver; what a program says stands in where nothing better was said."""
        first = {trial.plan.solver.name: trial for trial in reversed(asked)}
        for name, trial in first.items():
            definition = self._solvers[name]
            if definition.kind == "cascade":
                self._subjects[name], self._remarks[name] = ask_who(
                    self._options.cascade_socket,
                    self._subjects[name],
                    str(definition.path),
                    remote=self._adapters.engine.stamp().remote,
                )
                continue
            image = image_ids[trial.planned.images.composed.config]
            cgroup = self._adapters.meter.harness_cgroup(self.run)
            found = program_version(definition, self._adapters.engine, image, labels, cgroup)
            if found is None:
                continue
            if definition.image is not None:
                refuse_other_version(definition, found, self._adapters.locked_version(definition.image, name))
            if self._subjects[name].version is None:
                self._subjects[name] = replace(self._subjects[name], version=found, source="release")

    def sweep(
        self,
        todo: tuple[Trial, ...],
        labels: Mapping[str, str],
        image_ids: Mapping[str, str],
        host: HostStamp,
        watcher: Watcher,
    ) -> RunEnded:
        stop = Stop()
        if self._before is None:
            places = {plan.solver.name: self._solvers[plan.solver.name].path for plan in self._plans}
            start_folder(self._folder, self._plans, Sources(self._suite.folder, places, self._options.model.weights))
            if self._options.challenge is not None:
                self._folder.keep(self._options.challenge)
        with closing(JournalWriter(self._folder.journal, self._before.kept_bytes if self._before else 0)) as writer:
            number = self._begin(writer, host)
            with self._models(todo, labels, image_ids, stop) as models:
                bench = self._bench(number, labels, image_ids, stop, writer=writer, models=models)
                runner = Runner(bench, writer.append, watcher, self._options.jobs, self._options.report)
                only = self._options.only
                total = sum(only is None or key in only for plan in self._plans for key in trial_keys(plan))
                watcher.began(total, total - len(todo))
                with signals(runner.on_signal):
                    try:
                        tally = self._measured_sweep(runner, todo, writer, number)
                    except Signalled as signalled:
                        tally = Tally((), signalled.number, None)
        if tally.refused is not None:
            self._write()
            tally.refused.mend = f"mend the meter, then: appliance run --resume {self._folder.root}"
            raise tally.refused
        if tally.signal is not None:
            self._write()
            raise RunStopped(
                "the run was stopped; what had finished is kept",
                status=_SIGNALLED + tally.signal,
                mend=f"appliance run --resume {self._folder.root}",
                hurried=tally.hurried,
            )
        return self._ended(self._write(), started=len(todo), failing=tally.failing)

    def _measured_sweep(self, runner: Runner, todo: tuple[Trial, ...], writer: JournalWriter, host: int) -> Tally:
        """The trials, and the machine at rest and the host's fitness around them. Raises Signalled between them."""
        meter, options = self._adapters.meter, self._options
        rests = Rests(
            meter,
            self.run,
            seconds=self._idle_seconds,
            keep=self._folder.keep,
            write=writer.append,
            pause=runner.pause,
            report=options.report,
            strict=options.strict_host,
        )
        lacking = not todo and self.lacks_rest()
        if todo:
            rests.before()
        elif lacking and self._before is not None:
            rests.make_up(stood=self._before.calibration() is not None)
        tally = runner.run(todo)
        if options.retry_errored and self._before is None and tally.ended and tally.again:
            tally = runner.run(tally.again)
        if todo and tally.signal is None and tally.refused is None:
            rests.after()
        self._rested = rests.seconds
        if (todo or lacking) and meter.counts and not tally.hurried:
            writer.append(journal.FitnessLine(host=host, checks=self._adapters.host.fitness(), at=now()))
        return tally

    def _begin(self, writer: JournalWriter, host: HostStamp) -> int:
        """Header and host of this start; the host's number among those of the journal."""
        if self._before is None:
            digests = tuple(plan.digest for plan in self._plans)
            writer.append(
                journal.HeaderLine(
                    run_id=self.run,
                    plan_digests=digests,
                    harness=harness_stamp(),
                    started_at=now(),
                    idle_seconds=self._idle_seconds if self._adapters.meter.counts else None,
                )
            )
        writer.append(journal.HostLine(host=host, at=now()))
        hosts = self._before.hosts() if self._before else ()
        number = hosts.index(host) if host in hosts else len(hosts)
        if self._before is not None:
            for trial in self.todo():
                if (self._folder.in_flight / trial.name).exists():
                    # Its harness was killed outright.
                    writer.append(cut_off(trial, number, self._folder))
        shutil.rmtree(self._folder.in_flight, ignore_errors=True)
        self._folder.in_flight.mkdir()
        return number

    def _models(
        self, todo: tuple[Trial, ...], labels: Mapping[str, str], image_ids: Mapping[str, str], stop: Stop
    ) -> Models:
        wanted = {trial.plan.digest: trial.plan for trial in todo}
        return Models(
            wanted.values(),
            engine=stop.watch(self._adapters.engine),
            open_gateway=self._adapters.gateway,
            server_argv=self._adapters.server_argv,
            image_ids=image_ids,
            labels=labels,
            folder=self._adapters.scratch(self.run) / "models",
            kept=self._folder.root,
            sources=self._options.model,
            spent=spent_by_gateway(self._plans, self._before),
            replays=self._options.replays,
            model_cgroup=lambda: self._adapters.meter.model_cgroup(self.run),
            report=self._options.report,
        )

    def _bench(
        self,
        host: int,
        labels: Mapping[str, str],
        image_ids: Mapping[str, str],
        stop: Stop,
        *,
        writer: JournalWriter,
        models: Models,
    ) -> Bench:
        engine = stop.watch(self._adapters.engine)
        scratch = self._adapters.scratch(self.run)
        grader = Grader(
            engine,
            Roomier(self._adapters.workspaces),
            labels,
            lambda: self._adapters.meter.harness_cgroup(self.run),
            scratch / "grading",
            bind_tests=self._adapters.binds_tests,
        )

        def baseline(planned: PlannedTask, task: Task) -> Baseline:
            found, stdout, stderr = grader.baseline(task, planned, image_ids[planned.images.task.config])
            stop.check()
            output = stdout.kept + stderr.kept
            kept = found.model_copy(update={"output": self._folder.keep(output) if output else None})
            writer.append(journal.BaselineLine(baseline=kept))
            return kept

        return Bench(
            run=self.run,
            host=host,
            folder=self._folder,
            scratch=scratch,
            labels=labels,
            engine=engine,
            image_ids=image_ids,
            workspaces=self._adapters.workspaces,
            meter=self._adapters.meter,
            grader=grader,
            baselines=Baselines(self._before.baselines() if self._before else (), baseline),
            turns=Turns(exclusive=any(plan.energy.scheduling == "exclusive" for plan in self._plans)),
            stop=stop,
            models=models,
        )

    def _write(self) -> tuple[Written, ...]:
        archive = self._folder.keep(archive_suite(self._suite)) if self._options.keep_suite else None
        shared = Folding(self._suite, archive, self._adapters.meter.stamp(), self._options.trust, self._remarks)
        return write_records(self._folder, self._plans, self._subjects, shared)

    def unchanged(self) -> RunEnded:
        """Everything is there already: nothing is run, nothing is written."""
        records = [Record.read(self._folder.record(plan.solver.name)) for plan in self._plans]
        written = tuple(Written(sha256_hex(record.canonical()), RecordOutline.of(record)) for record in records)
        return self._ended(written, started=0, failing=None)

    def _ended(self, written: tuple[Written, ...], *, started: int, failing: str | None) -> RunEnded:
        return RunEnded(
            run=self.run,
            folder=self._folder.root,
            records=tuple(self._folder.record(plan.solver.name) for plan in self._plans),
            digests=tuple(one.sha256 for one in written),
            outlines=tuple(one.outline for one in written),
            failing=failing,
            started=started,
            rested_seconds=self._rested,
        )
