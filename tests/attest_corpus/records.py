"""Whole records that a cheat changed and signed again with the genuine key: only our own checks know better."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from appliance.digests import sha256_hex
from appliance.files import store_blob
from attest import canonical
from attest.predicate import Claims, Dependency, Sha256Digest
from tests import record_builder as build
from tests.attest_corpus import Attested, Case, slug
from tests.attest_corpus.workshop import Workshop, stated
from tests.attest_forge import HEX
from tests.property.test_audit_mutations import CASES as OF_RECORDS
from tests.property.test_audit_mutations import at, drop

Mutation = Callable[[dict[str, Any]], Any]


def resigned(  # noqa: PLR0917  one row of a table
    name: str, defect: str, reason: str, rows: str, mutate: Mutation, where: str | None = None
) -> Case:
    def make(shop: Workshop) -> Attested:
        value = shop.record.json_value()
        mutate(value)
        return shop.signed_again(value, shop.blobs)

    return Case(name, defect, reason, rows, make, where, signed_again=True)


def told() -> Iterator[Case]:
    """Plan, trials, outcomes, grades, summary: the cases that the checks' own tests have too."""
    for words, (reason, where, mutate) in OF_RECORDS.items():
        yield resigned(f"record-{slug(words)}", words, reason, "6 (record, aggregate, energy), H5, J44", mutate, where)


TAKEN_BY_THE_SCHEMA = frozenset({"wall-negative", "no-hosts"})
"""Of these the schema says nothing: what gives them away is the rest of the record, or its journal."""


def schema() -> Iterator[Case]:
    """What no schema of ours takes, at every depth."""
    forms: dict[str, tuple[str, Mutation]] = {
        "schema-of-another-version": ("record-v2 for record-v1", at("schema", "record-v2")),
        "schema-as-a-number": ("a number for its schema", at("schema", 1)),
        "no-plan": ("no plan", drop("plan")),
        "no-trials-key": ("no list of trials", drop("trials")),
        "trials-as-an-object": ("an object for the list of trials", at("trials", {})),
        "trials-null": ("null for the list of trials", at("trials", None)),
        "energy-as-text": ("joules as text", at("trials.0.energy.total.netUj", "65000000")),
        "energy-as-a-float": ("half a microjoule", at("trials.0.energy.total.netUj", 0.5)),
        "energy-of-no-provenance": (
            "a provenance that no list has",
            at("trials.0.energy.total.provenance", "measured"),
        ),
        "energy-flag-of-no-list": ("a flag that no list has", at("trials.0.energy.total.flags", ["fine"])),
        "cost-as-a-number": ("dollars as a number", at("trials.0.costUsd.subject", 1)),
        "cost-negative": ("a negative price", at("trials.0.costUsd.subject", "-1")),
        "wall-negative": ("a negative wall", at("trials.0.wallSeconds", -1)),
        "memory-negative": ("less than no memory", at("trials.0.peakMemoryMib", -5)),
        "kills-negative": ("minus one kill", at("trials.0.oomKills", -1)),
        "moment-without-a-zone": ("a start without its zone", at("trials.0.startedAt", "2026-01-02T03:04:05")),
        "moment-of-another-zone": ("a start in local time", at("trials.0.startedAt", "2026-01-02T05:04:05+02:00")),
        "moment-of-no-calendar": ("a start on February 30", at("trials.0.startedAt", "2026-02-30T03:04:05Z")),
        "moment-of-month-13": ("a start in month 13", at("trials.0.startedAt", "2026-13-02T03:04:05Z")),
        "moment-of-other-digits": (
            "a start in another alphabet's digits",
            at("trials.0.startedAt", "\u0662\u0660\u0662\u0666-01-02T03:04:05Z"),
        ),
        "date-as-a-word": ("yesterday for its date", at("date", "yesterday")),
        "date-with-a-newline": ("a line break after its date", at("date", "2026-01-02T03:04:05Z\n")),
        "digest-in-capitals": ("a digest in capitals", at("suite.digest", "A" * 64)),
        "digest-short": ("a digest of 63 digits", at("suite.digest", "a" * 63)),
        "blob-of-negative-size": ("a blob of -1 bytes", at("journal.bytes", -1)),
        "key-without-a-task": ("a trial of no task", drop("trials.0.key.task")),
        "rollout-negative": ("a rollout below the first", at("trials.0.key.rollout", -1)),
        "grade-as-text": ("a grade in words", at("trials.0.grade", "passed")),
        "grade-with-another-oracle": ("an oracle of no list", at("trials.0.grade.oracle", "me")),
        "id-status-of-no-list": ("a status of no list", at("trials.0.grade.ids.0.status", "fine")),
        "outcome-without-a-reason": ("unresolved for no reason", at("trials.1.reason", None)),
        "excluded-without-a-reason": ("excluded for no reason", at("trials.2.reason", None)),
        "resolved-with-a-reason": ("resolved, because tests failed", at("trials.0.reason", "tests_failed")),
        "no-hosts": ("no host", at("hosts", [])),
        "host-of-minus-two-cores": ("minus two cores", at("hosts.0.cores", -2)),
        "harness-dirty-as-text": ("dirty in words", at("harness.dirty", "no")),
        "complete-as-a-number": ("1 for true", at("complete", 1)),
        "a-field-deep-inside-more": ("a field more in a grade", lambda v: v["trials"][0]["grade"].update(note="x")),
        "solver-kind-of-no-list": ("a solver of no kind", at("solver.kind", "magic")),
    }
    for name, (words, mutate) in forms.items():
        reason = "aggregate" if name in TAKEN_BY_THE_SCHEMA else "record"
        yield resigned(f"record-{name}", words, reason, f"6 ({reason})", mutate)


def disagreeing() -> Iterator[Case]:
    """The statement says something else of the record than the record: who reads only one is misled."""

    def case(name: str, words: str, change: Callable[[Claims], Claims], field: str) -> Case:
        def make(shop: Workshop) -> Attested:
            content = shop.record.canonical()
            return shop.signed(content, change(stated(content)), shop.blobs)

        return Case(
            f"statement-{name}",
            words,
            "statement",
            "4 (statement against record)",
            make,
            f"payload $.predicate.{field}",
            signed_again=True,
        )

    def but(**changes: Any) -> Callable[[Claims], Claims]:
        return lambda claims: claims.model_copy(update=changes)

    def inside(field: str, **changes: Any) -> Callable[[Claims], Claims]:
        return lambda claims: claims.model_copy(update={field: getattr(claims, field).model_copy(update=changes)})

    other = Sha256Digest(sha256=HEX)
    yield case(
        "names-another-suite",
        "another suite",
        inside("suite", uri="https://bench-appliance.invalid/suites/hard"),
        "suite",
    )
    yield case("names-another-suite-version", "another version of the suite", inside("suite", version="99"), "suite")
    yield case("names-another-suite-digest", "another digest of the suite", inside("suite", digest=other), "suite")
    yield case(
        "names-another-schema",
        "another schema",
        inside("schema_", uri="https://bench-appliance.invalid/schemas/record-v2.schema.json"),
        "schema",
    )
    yield case(
        "names-another-harness-version", "another version of the harness", inside("runner", version="9.9.9"), "runner"
    )
    yield case("names-another-harness", "another digest of the harness", inside("runner", digest=other), "runner")
    yield case("names-no-dependencies", "no image", but(resolved_dependencies=()), "resolvedDependencies")
    yield case(
        "names-one-dependency-more",
        "an image more",
        lambda claims: claims.model_copy(
            update={
                "resolved_dependencies": (
                    *claims.resolved_dependencies,
                    Dependency(name="image/x", digest={"sha256": HEX}),
                )
            }
        ),
        "resolvedDependencies",
    )
    yield case("names-another-invocation", "another run", inside("run", invocation_id="r2"), "run")
    yield case("begins-earlier", "an earlier start", inside("run", started_on="2020-01-01T00:00:00Z"), "run")
    yield case("ends-later", "a later end", inside("run", finished_on="2030-01-01T00:00:00Z"), "run")
    yield case(
        "answers-a-challenge-that-the-record-does-not",
        "a challenge that the record did not have",
        but(challenge="1" * 64),
        "challenge",
    )


def blobs() -> Iterator[Case]:
    """The genuine record, signed, over blobs that are not those that it names."""

    def case(name: str, words: str, spoil: Callable[[Path], Any], where: str | None = None) -> Case:
        def make(shop: Workshop) -> Attested:
            folder = shop.shelf("spoilt")
            for digest, content in build.blobs(shop.record).items():
                store_blob(folder, content, digest)
            spoil(folder / "sha256" / sha256_hex(build.PATCH))
            return shop.signed_again(shop.record.canonical(), folder)

        return Case(f"blob-{name}", words, "blob", "P6, 6 (blob)", make, where, signed_again=True)

    def replaced(make: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def spoil(path: Path) -> None:
            path.unlink()
            make(path)

        return spoil

    yield case(
        "changed",
        "a digit of a patch",
        lambda path: path.write_bytes(build.PATCH.replace(b"2", b"3")),
        "$.trials[0].harvest.diff",
    )
    yield case(
        "longer",
        "a line behind a patch",
        lambda path: path.write_bytes(build.PATCH + b"\n"),
        "$.trials[0].harvest.diff",
    )
    yield case("empty", "an empty patch", lambda path: path.write_bytes(b""), "$.trials[0].harvest.diff")
    yield case("missing", "a patch that is not there", Path.unlink)
    yield case(
        "a-link",
        "a link to another blob",
        replaced(lambda path: path.symlink_to(sha256_hex(build.PRINTED))),
        "$.trials[0].harvest.diff",
    )
    yield case(
        "a-link-outside",
        "a link out of the folder",
        replaced(lambda path: path.symlink_to("/etc/hostname")),
        "$.trials[0].harvest.diff",
    )
    yield case("a-folder", "a folder", replaced(lambda path: path.mkdir()), "$.trials[0].harvest.diff")
    yield case("a-pipe", "a pipe that nobody writes to", replaced(os.mkfifo), "$.trials[0].harvest.diff")
    yield resigned(
        "blob-of-another-size",
        "a size that its blob has not",
        "blob",
        "P6",
        at("trials.0.harvest.diff.bytes", 1),
        "$.trials[0].harvest.diff",
    )
    yield resigned(
        "blob-stream-and-blob-disagree",
        "a whole stream whose blob is another",
        "blob",
        "P6",
        at("trials.0.streams.stdout.sha256", "0" * 64),
        "$.trials[0].streams.stdout.blob",
    )
    yield resigned(
        "blob-with-a-path-for-a-digest",
        "a path for a digest",
        "record",
        "P6, P11",
        at("trials.0.harvest.diff.sha256", "../../etc/passwd"),
    )


def journals() -> Iterator[Case]:
    """A record that folds into itself, and a journal that tells it otherwise; named by its own digest."""

    def case(name: str, words: str, change: Callable[[list[bytes]], list[bytes]]) -> Case:
        def make(shop: Workshop) -> Attested:
            whole = build.journal_bytes(shop.record.plan, shop.record.baselines, shop.record.trials)
            content = b"".join(change(whole.splitlines(keepends=True)))
            folder = shop.shelf("journal")
            for blob in (*build.blobs(shop.record).values(), content):
                store_blob(folder, blob, sha256_hex(blob))
            value = shop.record.json_value()
            value["journal"] = build.blob(content).json_value()
            return shop.signed_again(value, folder)

        return Case(f"journal-{name}", words, "aggregate", "6 (aggregate), H5", make, signed_again=True)

    def edited_line(number: int, change: Callable[[dict[str, Any]], Any]) -> Callable[[list[bytes]], list[bytes]]:
        def edit(lines: list[bytes]) -> list[bytes]:
            value = json.loads(lines[number])
            change(value)
            return [*lines[:number], canonical.dumps(value) + b"\n", *lines[number + 1 :]]

        return edit

    first = 5  # header, host, three baselines: then the trials
    yield case("empty", "an empty journal", lambda _: [])
    yield case("without-its-header", "no header", lambda lines: lines[1:])
    yield case("header-alone", "a header and nothing more", lambda lines: lines[:1])
    yield case("without-its-last-trial", "the last trial missing", lambda lines: lines[:-1])
    yield case("with-its-last-line-cut-off", "half of the last line", lambda lines: [*lines[:-1], lines[-1][:-20]])
    yield case(
        "with-a-line-cut-off-in-the-middle",
        "half a line among the others",
        lambda lines: [*lines[:first], lines[first][:-20] + b"\n", *lines[first + 1 :]],
    )
    yield case("without-a-baseline", "a baseline missing", lambda lines: [*lines[:2], *lines[3:]])
    yield case("without-a-host", "no host", lambda lines: [lines[0], *lines[2:]])
    yield case(
        "with-an-outcome-changed",
        "a trial that was resolved otherwise",
        edited_line(first, lambda v: v["result"].update(wallSeconds=1.5)),
    )
    yield case(
        "with-another-plan", "the header of another plan", edited_line(0, lambda v: v.update(planDigests=["0" * 64]))
    )
    yield case("with-a-trial-twice", "a trial that ended, told once more", lambda lines: [*lines, lines[first + 1]])
    other = edited_line(first, lambda v: v["result"].update(wallSeconds=1.5))
    yield case(
        "with-a-trial-run-until-it-pleased",
        "a trial that ended otherwise before",
        lambda lines: [*lines[:first], other(lines)[first], *lines[first:]],
    )
    yield case("with-a-line-of-no-kind", "a line of no kind", lambda lines: [*lines, b'{"type":"remark"}\n'])
    yield case("not-json", "no JSON", lambda _: [b"journal\n"])
    yield case(
        "with-white-space",
        "a line that is not canonical",
        lambda lines: [lines[0], lines[1].replace(b":", b": ", 1), *lines[2:]],
    )
    yield case("deep", "a line of a thousand brackets", lambda lines: [*lines, b"[" * 1000 + b"]" * 1000 + b"\n"])
    yield case(
        "of-another-run",
        "the trials of another pass",
        lambda lines: [*lines[:first], *lines[first + 1 :], lines[first].replace(b'"pass":0', b'"pass":7')],
    )


def cases() -> list[Case]:
    return [*told(), *schema(), *disagreeing(), *blobs(), *journals()]
