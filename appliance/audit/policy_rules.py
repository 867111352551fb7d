"""The smaller rules of a policy, each a pure question to one record: wanted and found are named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from appliance.audit.policy import Policy
from appliance.records.plan import trial_keys
from appliance.records.record import Record
from appliance.records.summarise import COUNTED
from appliance.records.words import PROVENANCE_BEST_FIRST
from attest.errors import Refused

_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
_BUILT_IN: Final = frozenset({"reference", "noop"})
_LEVELS: Final = {"any": (), "no_error": ("error",), "no_warning": ("error", "warn")}


def came_to_its_end(policy: Policy, record: Record) -> None:
    rule = policy.completeness
    if record.complete:
        return
    if rule.complete:
        raise _refused("wanted a complete run, found one that was broken off", "$.complete", "[completeness] complete")
    planned = len(trial_keys(record.plan))
    ran = sum(trial.outcome != "cancelled" for trial in record.trials)
    key = "[completeness] most_missing_share"
    _at_most(rule.most_missing_share, planned - ran, planned, "cancelled or never ran", key)


def little_is_excluded(policy: Policy, record: Record) -> None:
    """Of planned trials, over all passes."""
    rule = policy.exclusions
    planned = len(trial_keys(record.plan))
    after = sum(trial.after_subject for trial in record.trials)
    for key, count, words in (
        ("most_share", sum(trial.outcome == "excluded" for trial in record.trials), "excluded"),
        ("most_after_subject_share", after, "excluded after the subject had been at work"),
        ("most_errored_share", sum(trial.outcome == "errored" for trial in record.trials), "errored"),
    ):
        _at_most(getattr(rule, key), count, planned, words, f"[exclusions] {key}")


def is_young(policy: Policy, record: Record, now: datetime) -> None:
    """By the record's own clock."""
    most = policy.freshness.most_age_seconds
    if most is None:
        return
    started = [trial.started_at for trial in record.trials] or [record.date]
    try:
        age = (now - min(datetime.fromisoformat(moment) for moment in started)).total_seconds()
    except (ValueError, TypeError) as error:
        raise _refused(f"a trial starts at no moment: {error}", "$.trials", "[freshness] most_age_seconds") from error
    if age > most:
        raise Refused(
            "replay", f"wanted {most:g} s of age at most, found {age:.0f}", where="$.trials", word="stale_challenge"
        )


def hosts_were_fit(policy: Policy, record: Record) -> None:
    bad = _LEVELS[policy.host.fitness]
    for at, host in enumerate(record.hosts):
        for name, checks in (("fitness", host.fitness), ("fitnessAfter", host.fitness_after or ())):
            for number, check in enumerate(checks):
                if check.level in bad:
                    words = f"wanted {policy.host.fitness}, found {check.level} {check.name}: {check.message[:120]}"
                    raise _refused(words, f"$.hosts[{at}].{name}[{number}]", "[host] fitness")
        if host.noisy and policy.host.noisy == "refused":
            raise _refused("wanted a quiet host, found noisy", f"$.hosts[{at}].noisy", "[host] noisy")


def is_publishable(policy: Policy, record: Record) -> None:
    """decisions: Stamps. What ships with the harness and the suite has no version of its own to state."""
    for where, words, key in (*_subject(policy, record), *_harness(policy, record)):
        raise _refused(words, where, key)


def _subject(policy: Policy, record: Record) -> Iterator[tuple[str, str, str]]:
    if policy.stamps.commit == "optional" or record.solver.kind in _BUILT_IN:
        return
    key = "[stamps] commit"
    if record.solver.source == "release":
        if not record.version:
            yield "$.version", "wanted a release's version, found none", key
    elif record.commit is None:
        yield "$.commit", "wanted the commit of what was tested, or a release of it, found none", key
    elif not _COMMIT.fullmatch(record.commit):
        yield "$.commit", f"wanted a commit without changes, found {record.commit[:80]!r}", key


def _harness(policy: Policy, record: Record) -> Iterator[tuple[str, str, str]]:
    harness, rules = record.harness, policy.harness
    if policy.stamps.harness == "clean":
        if harness.dirty:
            yield "$.harness.dirty", "wanted a harness without changes, found changes", "[stamps] harness"
        if harness.commit is None and harness.version.endswith("unknown"):
            words = f"wanted a release or a commit, found {harness.version[:80]!r}"
            yield "$.harness.version", words, "[stamps] harness"
    if rules.versions and harness.version not in rules.versions:
        words = f"wanted {' or '.join(rules.versions[:8])}, found {harness.version[:80]!r}"
        yield "$.harness.version", words, "[harness] versions"
    if rules.digests and harness.digest not in rules.digests:
        words = f"wanted one of {len(rules.digests)} digests, found {harness.digest[:12]}"
        yield "$.harness.digest", words, "[harness] digests"


def joules_come_from(policy: Policy, record: Record) -> None:
    """Of counted trials; what a cloud took is a model's word by nature, and beside it `local` is held to the floor."""
    rule = policy.provenance
    worst = PROVENANCE_BEST_FIRST.index(rule.floor)
    for at, trial in enumerate(record.trials):
        if trial.outcome not in COUNTED:
            continue
        here = f"$.trials[{at}].energy"
        if trial.energy is None:
            if rule.energy == "required":
                raise _refused("wanted a figure of energy, found none", here, "[provenance] energy")
            continue
        figure, name = (trial.energy.local, "local") if trial.energy.local else (trial.energy.total, "total")
        if PROVENANCE_BEST_FIRST.index(figure.provenance) > worst:
            words = f"wanted {rule.floor} or better, found {figure.provenance}"
            raise _refused(words, f"{here}.{name}.provenance", "[provenance] floor")
        places = {"total": trial.energy.total, **{f"zones.{key}": zone for key, zone in trial.energy.zones.items()}}
        for place, part in places.items():
            for flag in part.flags:
                if flag in rule.refused_flags:
                    words = f"wanted joules that are not {flag}"
                    raise _refused(words, f"{here}.{place}.flags", "[provenance] refused_flags")


def _at_most(most: float, count: int, planned: int, words: str, key: str) -> None:
    if count > most * planned:
        raise _refused(f"wanted {most:.1%} at most {words}, found {count} of {planned}", "$.trials", key)


def _refused(words: str, where: str, key: str) -> Refused:
    """`key`: which rule of the policy asks for it. A record is what it is; another run, or another rule, mends it."""
    return Refused("policy", words, where=where, mend=f"the policy's {key}", word="policy")
