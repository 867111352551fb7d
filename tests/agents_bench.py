"""Trials of the real agents, as their shipped TOMLs have them, on bundled tasks, against a scripted model."""

from __future__ import annotations

import base64
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from appliance.cli.main import run
from appliance.digests import sha256_of_file
from appliance.gateway.cassette import CassetteWriter, read_cassette
from appliance.records.blob import BlobRef
from appliance.records.record import Record
from appliance.records.words import Provider
from appliance.solvers.definition import SolverDefinition, read_definition
from appliance.tasks.model import Suite
from appliance.tasks.reader import read_suite
from appliance.trials.models import ModelSources
from appliance.trials.session import RunEnded
from tests.gateway_bench import upstream
from tests.scripted_model import Run, Say, ScriptedModel, Seen, Tokens, Turn
from tests.trials_bench import run_suite

ROOT = Path(__file__).parents[1]
SOLVERS = ROOT / "solvers"
MODEL = "scripted"
TOKENS = Tokens(input=1000, cache_read=400, output=50)
PROVIDERS: dict[str, Provider] = {"claude": "anthropic", "gemini": "google"}
"""Whose form it speaks, where that is not everybody's."""
KEY_VARIABLE = "APPLIANCE_TEST_KEY"
ODD = "--fix it: \"quotes\", 'more of them', $HOME `id` {prompt} {{task}} %s <b>, ünïcödé; then: "
"""In front of a task's prompt: what shells, templates and readers of flags would change."""
LOOK = Run(
    'date; date +%F; printf "hostname: "; hostname; printf "user: "; id -u; uname -a; ls -la; echo PID $$; '
    "echo ${PATH##*/codex-arg0??????:}",
    text="I look around first.",
)


@dataclass(frozen=True)
class Given:
    """One agent's task: it stands in the smoke suite, and one file of its reference mends it."""

    agent: str
    task: str = "invoice-dates"
    file: str = "billing/schedule.py"

    @property
    def mended(self) -> str:
        return (ROOT / "tasks/smoke" / self.task / "reference" / self.file).read_text()

    @property
    def broken(self) -> str:
        return (ROOT / "tasks/smoke" / self.task / "before" / self.file).read_text()

    @property
    def mode(self) -> str | None:
        """aider tells its model of day and kernel in this one alone."""
        return "diff" if self.agent == "aider" else None

    @property
    def turns(self) -> tuple[Turn, ...]:
        if self.agent == "aider":  # it has no tools: edits stand in its answers
            fence = f"<<<<<<< SEARCH\n{self.broken}=======\n{self.mended}>>>>>>> REPLACE"
            # An answer that names a file it was not shown (count.h) is not applied: aider shows it, and asks again.
            return (Say(f"I mend it.\n\n{self.file}\n```\n{fence}\n```\n"),)
        coded = base64.b64encode(self.mended.encode()).decode()  # gemini runs nothing that holds a backtick
        fix = Run(f"echo {coded} | base64 -d > {self.file}", text="Now I mend it.")
        if self.agent == "mini-swe-agent":
            return (LOOK, fix, Run("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", text="Done."))
        return (LOOK, fix, Say("Mended."))

    @property
    def order(self) -> Literal["conversation", "arrival"]:
        return "arrival" if self.agent == "aider" else "conversation"

    def model(self, **changes: Any) -> ScriptedModel:
        turns = changes.pop("turns", self.turns)
        return ScriptedModel(*turns, **({"order": self.order, "tokens": TOKENS, "model": MODEL} | changes))


GIVEN = {
    "aider": Given("aider", "word-count", "count.c"),
    **{name: Given(name) for name in ("claude", "codex", "gemini", "mini-swe-agent", "opencode", "qwen")},
}


@dataclass(frozen=True)
class Tried:
    """A trial of an agent, its record, and what its model was asked."""

    given: Given
    suite: Suite
    ended: RunEnded
    saw: tuple[Seen, ...]

    @property
    def record(self) -> Path:
        return self.ended.records[0]

    @property
    def asked(self) -> tuple[Seen, ...]:
        return tuple(seen for seen in self.saw if seen.method == "POST" and seen.form)


def suite_of(folder: Path, task: str, *, more: str = "") -> Suite:
    """One task of the smoke suite, its prompt made hard to carry. `more`: lines for its limits."""
    shutil.copytree(ROOT / "tasks/smoke" / task, folder / task)
    toml = folder / task / "task.toml"
    text = toml.read_text().replace('prompt = """\n', 'prompt = """\n' + ODD.replace('"', '\\"'), 1)
    # Node's agents need more than the suite grants to programs.
    text = re.sub(r"memory_mib = \d+", "memory_mib = 2048", text)
    toml.write_text(text.replace("[limits]\n", f"[limits]\n{more}", 1))
    return read_suite(folder)


def definition_of(agent: str) -> SolverDefinition:
    return read_definition(SOLVERS / f"{agent}.toml")


def tried(given: Given, folder: Path, model: ScriptedModel, **asked: Any) -> Tried:
    """`model` is entered here, and gone when this returns."""
    suite = suite_of(folder / "suite", given.task)
    definition, url = asked.pop("definition", None) or definition_of(given.agent), asked.pop("url", None)
    upstreams = {"provider": PROVIDERS.get(given.agent, "compatible")}
    upstreams |= {name: asked.pop(name) for name in ("budget", "run_budget") if name in asked}
    os.environ[KEY_VARIABLE] = asked.pop("key", "sk-of-no-use-0123456789")
    run_options = {"keep_suite": True, "model": ModelSources(key_variable=KEY_VARIABLE)}
    name = asked.pop("named", MODEL)
    with model:
        ended = run_suite(
            folder / "run",
            suite,
            definition,
            model=name,
            mode=asked.pop("mode", given.mode),
            upstream=upstream(url or model.url, **upstreams),
            run_options=run_options,
            **asked,
        )
    return Tried(given, suite, ended, tuple(model.saw))


def replayed(record: Path, agent: str, out: Path) -> tuple[int, Record]:
    """`reproduce --replay` as the command does it; its verdict lies on stdout."""
    words = ["reproduce", str(record), "--replay", "--solver", str(SOLVERS / f"{agent}.toml"), "--out", str(out)]
    status = run([*words, "--json"])
    return status, Record.read(out / "records" / f"{agent}.json")


def texts(value: Any) -> Iterator[str]:
    """All that stand in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(part)


def elsewhere(record: Path, folder: Path) -> tuple[Path, frozenset[str]]:
    """The same record, had it been made on another day, host and kernel: all its recorded requests say so.

    Its path in a run folder of its own; and which of the three were found anywhere.
    """
    read = Record.read(record)
    shutil.copytree(record.parents[1] / "blobs", folder / "blobs")
    (trial,) = read.trials
    assert trial.cassette is not None
    blobs = folder / "blobs" / "sha256"
    (folder / "open").mkdir()
    cassette = read_cassette(blobs / trial.cassette.sha256, folder / "open")
    writer = CassetteWriter(folder / "other", cassette.prices_at)
    found: set[str] = set()
    for each in cassette.exchanges:
        body, changed = moved(each.asked.body, datetime.fromisoformat(trial.started_at))
        found |= changed
        writer.add(replace(each.exchange, asked=replace(each.asked, body=body)), each.response)
    writer.close()
    digest = sha256_of_file(folder / "other")
    size = (folder / "other").stat().st_size
    (folder / "other").rename(blobs / digest)
    other = trial.model_copy(update={"cassette": BlobRef(sha256=digest, bytes=size)})
    path = folder / "records" / record.name
    path.parent.mkdir()
    path.write_bytes(read.model_copy(update={"trials": (other,)}).canonical())
    return path, frozenset(found)


def moved(body: bytes, at: datetime) -> tuple[bytes, frozenset[str]]:
    """A request of `at`, as another day, host and kernel would have made it."""
    days = [at.astimezone(UTC), at.astimezone(UTC) + timedelta(days=1)]
    rules = [("kernel", re.escape(os.uname().release), "5.10.0-28-cloud-amd64")]
    rules += [("kernel", re.escape(os.uname().version), "#1 SMP Debian 5.10.209-2 (2024-01-31)")]
    rules += [("host", r"hostname: bench\b", "hostname: build-7"), ("host", "Linux bench ", "Linux build-7 ")]
    for day in days:
        rules += [
            ("date", f"{day:%Y-%m-%d}", "2031-07-09"),
            ("date", f"{day:%Y/%m/%d}", "2031/07/09"),
            ("date", f"{day:%a} {day:%b} {day.day:>2} [0-9:]{{8}} UTC {day:%Y}", "Wed Jul  9 04:05:06 UTC 2031"),
            ("date", f"{day:%A}, {day:%B} {day.day}, {day:%Y}", "Wednesday, July 9, 2031"),
            ("date", f"{day:%a} {day:%b} {day:%d} {day:%Y}", "Wed Jul 09 2031"),
            ("date", f"{day:%-m}/{day:%-d}/{day:%Y}", "7/9/2031"),
            ("date", f"{day:%b} {day.day:>2} [0-9][0-9]:[0-9][0-9] ", "Jul  9 04:05 "),
        ]
    text, found = body.decode(), set()
    for name, pattern, other in rules:
        text, times = re.subn(pattern, other, text)
        found |= {name} if times else set()
    return text.encode(), frozenset(found)
