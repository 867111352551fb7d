"""Records as a report in words. Pure: the same records give the same bytes, at the end of `run` and ever after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from appliance.records.frontier import Frontier, energy_point, frontier, money_point, ranking_refusal
from appliance.records.outline import AnyRecord
from appliance.records.replays import REPLAY_WORDS, asked_its_model, is_replay
from appliance.records.summarise import COUNTED
from appliance.records.summary import PassSummary
from appliance.records.trial import Usage
from appliance.records.words import NOISE
from appliance.report import energy_remarks, joules, words
from appliance.report.cohorts import Cohort, cohorts, differing_fields
from appliance.report.table import table
from appliance.report.words import cell

_HEADS = ("solver", "model", "pass", "resolved", "rate", "at least", "median wall", "dollars")
_RIGHT = frozenset({2, 3, 4, 5, 6})
_ENERGY_RIGHT = frozenset({1})


def render_text(records: Sequence[AnyRecord], *, ratio: bool = False) -> str:
    """A cohort's resolution and its joules, with what the figures need beside them; ends with a line feed.

    `ratio`: also what Kepler's utilisation ratio would credit.
    """
    groups = cohorts(records)
    lines: list[str] = []
    for group in groups:
        lines += [*_cohort(group, ratio), ""]
    if len(groups) > 1:
        lines += [f"not compared with each other: {', '.join(differing_fields(groups))} differ", ""]
    return "\n".join(lines[:-1]) + "\n"


def _cohort(group: Cohort, ratio: bool) -> Iterator[str]:
    plan = group.records[0].plan
    suite = plan.suite
    yield f"{cell(suite.name)} {cell(suite.version)} (sha256 {suite.digest[:16]}), {_count(len(plan.tasks), 'task')}"
    yield ""
    rows = [_row(name, record, found) for name, record in named(group.records) for found in record.summary.passes]
    yield from table(_HEADS, rows, right=_RIGHT)
    yield ""
    yield from _energy_table(group.records, ratio)
    yield from _token_table(group.records)
    for name, record in named(group.records):
        remarks = list(_remarks(record))
        if remarks:
            yield ""
            yield f"{cell(name)}:"
            yield from (f"  {remark}" for remark in remarks)
    yield from _curves(group.records)
    yield from _frontiers(group.records)


def named(records: Sequence[AnyRecord]) -> list[tuple[str, AnyRecord]]:
    """Solver names; where two are the same, with their record's id. A replay is called one."""
    names = [f"{record.solver.name} [replayed]" if is_replay(record) else record.solver.name for record in records]
    return [
        (name if names.count(name) == 1 else f"{name} ({record.record_id})", record)
        for name, record in zip(names, records, strict=True)
    ]


def _row(name: str, record: AnyRecord, found: PassSummary) -> tuple[str, ...]:
    resolved = found.outcomes["resolved"]
    return (
        name,
        model_of(record),
        str(found.pass_),
        f"{resolved} of {resolved + found.outcomes['unresolved']}",
        words.percent(found.resolution),
        words.percent(found.lower_bound),
        words.seconds(found.wall_median_seconds),
        words.dollars(found.cost_usd, partially=_partially(record, found)),
    )


def _partially(record: AnyRecord, found: PassSummary) -> bool | None:
    """None: a price lacks, and no counted trial has one."""
    if not found.partially_priced:
        return False
    counted = (one for one in record.trials if one.key.pass_ == found.pass_ and one.outcome in COUNTED)
    return True if any(asked_its_model(one) and one.cost_usd.subject is not None for one in counted) else None


def _energy_table(records: Sequence[AnyRecord], ratio: bool) -> Iterator[str]:
    """Two lines a pass: all of its counted trials, and what that makes for each resolved one. Net is the headline."""
    kinds: tuple[joules.Kind, ...] = ("net", "gross", "ratio") if ratio else ("net", "gross")
    rows = []
    for name, record in named(records):
        for found in record.summary.passes:
            whole = (joules.of_pass(found.energy, kind) for kind in kinds)
            each = (joules.per_resolved(found, kind) for kind in kinds)
            rows.append((name, str(found.pass_), "in all", *whole, joules.source(found.energy)))
            for label, side in (("of it here", found.local), ("of it the provider", found.cloud)):
                if side is not None:
                    rows.append(("", "", label, *(joules.of_pass(side, kind) for kind in kinds), joules.source(side)))
            rows.append(("", "", "a resolved", *each, ""))
    yield from table(("solver", "pass", "joules", *kinds, "from"), rows, right=_ENERGY_RIGHT)


def _token_table(records: Sequence[AnyRecord]) -> Iterator[str]:
    """Where a model was asked: the gateway's own count, of all counted trials; one that lacks leaves no sum."""
    rows = [
        (name, str(found.pass_), *_tokens(found.usage))
        for name, record in named(records)
        for found in record.summary.passes
        if found.usage is not None or _was_asked(record, found.pass_)
    ]
    if rows:
        heads = ("solver", "pass", "input tokens", "read from cache", "output", "of it reasoning")
        yield ""
        yield from table(heads, rows, right=frozenset(range(1, len(heads))))


def _was_asked(record: AnyRecord, sweep: int) -> bool:
    return any(asked_its_model(one) for one in record.trials if one.key.pass_ == sweep and one.outcome in COUNTED)


def _tokens(usage: Usage | None) -> tuple[str, ...]:
    if usage is None:
        return ("not known", words.NONE, words.NONE, words.NONE)
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens)
    return tuple(f"{count:,}" for count in counts)


def model_of(record: AnyRecord) -> str:
    return record.model.name if record.model else "none"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _remarks(record: AnyRecord) -> Iterator[str]:
    """What a reader must know before believing a row."""
    if record.dry_run:
        yield "a dry run: nothing ran"
    if is_replay(record):
        yield f"{REPLAY_WORDS}; its tokens and dollars are those of the run that it replays, and it enters no ranking"
    if not record.complete:
        yield "incomplete: planned trials are missing"
    for found in record.summary.passes:
        yield from _pass_remarks(record, found, several=len(record.summary.passes) > 1)
    checks = record.suite.checks
    if record.plan.quarantined:
        reasons = {entry.task: entry.reason for entry in checks.quarantined} if checks else {}
        yield f"quarantined, not planned: {_listed(record.plan.quarantined, reasons)}"
    if record.plan.filtered:
        yield f"left out by --tasks: {_count(len(record.plan.filtered), 'task')}"
    if checks and checks.forgeable:
        forgers = {entry.task: ", ".join(entry.forgers) for entry in checks.forgeable}
        yield f"forgeable, a solver can win these without solving them: {_listed(sorted(forgers), forgers)}"
    if record.plan.limit_overrides:
        changed = ", ".join(f"{key} {value:g}" for key, value in sorted(record.plan.limit_overrides.items()))
        yield f"not under the suite's own limits: {cell(changed)}"
    if any(found.cost_usd is not None for found in record.summary.passes) and record.prices is not None:
        yield f"dollars are list prices of {cell(record.prices.source)} {cell(record.prices.version)}, nobody's bill"
    upstream = record.plan.upstream
    if upstream is not None and upstream.base_url is not None:
        yield f"its model was asked at {cell(upstream.base_url)}"
    yield from energy_remarks.of_meter(record)
    yield from _noise(record)
    yield from (f"warning: {cell(warning)}" for warning in record.warnings)


def _noise(record: AnyRecord) -> Iterator[str]:
    """One line a look; hosts are numbered as trials count them, where there are several."""
    for number, host in enumerate(record.hosts):
        if not host.noisy:
            continue
        which = f"host {number}, " if len(record.hosts) > 1 else ""
        heard = {
            when: [check.message for check in checks if check.name in NOISE and check.level != "info"]
            for when, checks in (("before", host.fitness), ("after", host.fitness_after or ()))
        }
        if not any(heard.values()):
            yield f"the host was noisy{f' ({which[:-2]})' if which else ''}: why was not recorded"
        for when, messages in heard.items():
            if messages:
                yield f"the host was noisy ({which}{when}): {cell('; '.join(messages))}"


def _listed(names: Sequence[str], reasons: dict[str, str]) -> str:
    return "; ".join(cell(f"{name} ({reasons[name]})" if name in reasons else name) for name in names)


def _pass_remarks(record: AnyRecord, found: PassSummary, *, several: bool) -> Iterator[str]:
    before = f"pass {found.pass_}: " if several else ""
    scored = found.outcomes["resolved"] + found.outcomes["unresolved"]
    if causes := words.causes(found):
        yield f"{before}{scored} scored, {', '.join(causes)}"
    if others := words.unscored_counts(found):
        yield f"{before}in no rate: {', '.join(others)} of {found.planned} planned"
    if found.reasons:
        yield f"{before}why not resolved: {words.reasons(found)}"
    if found.after_subject:
        yield f"{before}{found.after_subject} excluded after the solver had begun: this lifts the rate"
    if found.energy:
        yield from (f"{before}{remark}" for remark in energy_remarks.of_pass(record, found.pass_, found.energy))


def _curves(records: Sequence[AnyRecord]) -> Iterator[str]:
    """Best of k: one line a k, where there is more than one rollout (rows J28, J31)."""
    for name, record in named(records):
        for found in record.summary.passes:
            if not found.best_of_k:
                continue
            near = found.local or found.energy
            label = joules.label(near) if near else ""
            # What a cloud's machines drew is always a model's word (row J33).
            heads = ("k", "resolved", "attempts", "dollars", "cloud J (estimated)", f"local J{label}")
            yield ""
            yield f"best of k, {cell(name)}, pass {found.pass_}:"
            rows = [
                (
                    str(entry.k),
                    words.percent(entry.fraction),
                    _attempts(record, found.pass_, entry.k),
                    words.dollars(entry.cost_usd),
                    words.NONE if entry.cloud_uj is None else f"{entry.cloud_uj / 1e6:.1f}",
                    words.NONE if entry.local_uj is None else f"{entry.local_uj / 1e6:.1f}",
                )
                for entry in found.best_of_k
            ]
            yield from (f"  {line}" for line in table(heads, rows, right=frozenset(range(6))))


def _attempts(record: AnyRecord, sweep: int, k: int) -> str:
    """Of k rollouts of every task, those that count: what was excluded, or errored, is in no figure of its line."""
    first = [one for one in record.trials if one.key.pass_ == sweep and one.key.rollout < k]
    return f"{sum(one.outcome in COUNTED for one in first)} of {k * len(record.plan.tasks)}"


def _frontiers(records: Sequence[AnyRecord]) -> Iterator[str]:
    """Of several solvers, by pass: who is beaten by nobody, in joules and in dollars (row J23)."""
    if len(records) < _SEVERAL:
        return
    for sweep in range(min(len(record.summary.passes) for record in records)):
        refused = ranking_refusal(records, sweep)
        summaries = [(name, record.summary.passes[sweep]) for name, record in named(records)]
        yield ""
        if refused:
            yield f"no ranking by joules, pass {sweep}: {'; '.join(map(cell, refused))}"
        else:
            spent = {name: joules.of_pass(found.energy) for name, found in summaries}
            by_joules = frontier([point for name, one in named(records) if (point := energy_point(name, one, sweep))])
            yield from _frontier(f"resolution against joules, pass {sweep}", by_joules, spent)
        if any(found.cost_usd is not None for _, found in summaries):
            paid = {name: words.dollars(found.cost_usd) for name, found in summaries}
            by_money = frontier([point for name, one in named(records) if (point := money_point(name, one, sweep))])
            yield from _frontier(f"resolution against dollars, pass {sweep}", by_money, paid)


def _frontier(title: str, found: Frontier, costs: dict[str, str]) -> Iterator[str]:
    yield f"{title}:"
    for heading, points in (("beaten by none", found.best), ("beaten", found.beaten), ("not ranked", found.apart)):
        for point in points:
            yield f"  {heading}: {cell(point.label)}, {words.percent(point.resolution)}, {costs[point.label]}"


_SEVERAL = 2
