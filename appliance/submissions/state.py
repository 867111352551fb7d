"""What the lines of a store's index come to: which record stands where, what was seen before, what may not come again.

Pure: lines in, values out. A record's state is its first line that is more than an exclusion, then what a person did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from appliance.digests import sha256_hex
from appliance.pins import Sha256
from appliance.submissions.challenge import Moment
from appliance.submissions.decisions import Decision, Status, Tier
from appliance.wire import Wire
from attest import canonical
from attest.errors import Refused


class PolicyStamp(Wire):
    name: str
    version: int
    sha256: Sha256
    uri: str


class RootStamp(Wire):
    """A root that the policy holds signatures to, and the name that this receiver knows it by."""

    name: str
    sha256: Sha256


class LogEntry(Wire):
    """Where a signer's own log says that a record's signature stands. Such a log is under his hand: two records in one
    place are a log that was written anew."""

    root: Sha256
    """The signer's."""
    index: int


class DecisionLine(Wire):
    """One record of one submission, decided."""

    kind: Literal["decision"] = "decision"
    submission: Sha256
    """Of the digests of its records and their bundles."""
    file: str
    record: Sha256
    bundle: Sha256 | None
    """None: nobody signed it."""
    trials: Sha256 | None
    """Of what its trials hold, whatever the record is called; None where it could not be read."""
    plan: Sha256 | None
    challenge: Sha256 | None
    log: LogEntry | None
    """None where it is somebody else's log, or nobody signed."""
    decision: Decision
    reached: Tier | None
    """The tier that its evidence reaches; what a quarantined one gets once it is released."""
    verdict: Sha256
    """Of the bundle of the signed verdict, in verdicts/."""
    reproductions: tuple[Sha256, ...]
    """Of the bundles of listed verifiers' summaries that count for its tier, in verdicts/."""
    policy: PolicyStamp
    roots: tuple[RootStamp, ...]
    received_at: Moment


class ActLine(Wire):
    """A person's word over a quarantined record."""

    kind: Literal["act"] = "act"
    act: Literal["release", "refuse"]
    record: Sha256
    reason: str
    statement: Sha256
    """Of the bundle of the signed act, in verdicts/."""
    verdict: Sha256
    """Of the bundle of the verdict that now holds."""
    tier: Tier | None
    at: Moment


Line = Annotated[DecisionLine | ActLine, Field(discriminator="kind")]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_LINES: Final[TypeAdapter[DecisionLine | ActLine]] = TypeAdapter(Line)


@dataclass(frozen=True)
class Standing:
    """Where a record stands, by the line that put it there."""

    status: Status
    tier: Tier | None
    line: DecisionLine
    act: ActLine | None = None


@dataclass(frozen=True)
class StoreState:
    records: Mapping[str, Standing] = field(default_factory=dict)
    trials: Mapping[str, DecisionLine] = field(default_factory=dict)
    """Digest of trials: who was accepted or put into quarantine with them, a signed record before one that nobody
    signed."""
    challenges: Mapping[str, Sequence[DecisionLine]] = field(default_factory=dict)
    """Which accepted or quarantined records met a challenge."""
    submissions: Mapping[str, Sequence[DecisionLine]] = field(default_factory=dict)
    """The lines of a submission's last intake come last."""
    logged: Mapping[LogEntry, DecisionLine] = field(default_factory=dict)
    """Whose record was first seen in each place of a signer's own log, taken or not: his signature holds."""
    policies: Mapping[str, PolicyStamp] = field(default_factory=dict)
    """By name, the latest version."""
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By name, every root that it stood for, in the order it changed."""
    first_seen: Mapping[str, str] = field(default_factory=dict)
    """By record, when it was received for the first time."""
    first_signed: Mapping[str, str] = field(default_factory=dict)
    """By bundle, when it was: then its signature was there."""

    @property
    def kept_in_verdicts(self) -> frozenset[str]:
        lines = [line for found in self.submissions.values() for line in found]
        acts = [standing.act for standing in self.records.values() if standing.act]
        named = {sha for line in lines for sha in (line.verdict, *line.reproductions)}
        return frozenset(named | {sha for act in acts for sha in (act.statement, act.verdict)})


def parse_lines(entries: Iterable[canonical.Json], where: str) -> tuple[DecisionLine | ActLine, ...]:
    """Raises Refused (replay) for a line that no store of ours writes."""
    found = []
    for number, entry in enumerate(entries, start=1):
        try:
            found.append(_LINES.validate_json(canonical.dumps(entry), by_alias=True, by_name=False))
        except ValidationError as error:
            words = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise Refused("replay", f"no line of a store: {words}", where=f"{where}:{number}") from error
    return tuple(found)


def state_of(lines: Iterable[DecisionLine | ActLine], where: str = "index.jsonl") -> StoreState:
    """Raises Refused (replay) for an act over what was not in quarantine: no store of ours writes that."""
    records: dict[str, Standing] = {}
    trials: dict[str, DecisionLine] = {}
    challenges: dict[str, list[DecisionLine]] = {}
    submissions: dict[str, list[DecisionLine]] = {}
    policies: dict[str, PolicyStamp] = {}
    roots: dict[str, tuple[str, ...]] = {}
    lines = tuple(lines)
    for number, line in enumerate(lines, start=1):
        if isinstance(line, ActLine):
            before = records.get(line.record)
            if before is None or before.status != "quarantined":
                words = f"an act over a record that was {before.status if before else 'never decided'}"
                raise Refused("replay", words, where=f"{where}:{number}")
            status: Status = "accepted" if line.act == "release" else "excluded"
            records[line.record] = Standing(status, line.tier, before.line, line)
            continue
        submissions.setdefault(line.submission, []).append(line)
        policy = policies.get(line.policy.name)
        if policy is None or policy.version <= line.policy.version:
            policies[line.policy.name] = line.policy
        for root in line.roots:
            known = roots.get(root.name, ())
            if not known or known[-1] != root.sha256:
                roots[root.name] = (*known, root.sha256)
        stands = records.get(line.record)
        if line.decision.status == "excluded":
            if stands is None or (stands.status == "excluded" and stands.act is None):
                records[line.record] = Standing("excluded", None, line)
            continue
        records[line.record] = Standing(line.decision.status, line.decision.tier, line)
        if line.trials is not None:
            holds = trials.get(line.trials)
            if holds is None or (holds.bundle is None and line.bundle is not None):
                trials[line.trials] = line
        if line.challenge is not None:
            challenges.setdefault(line.challenge, []).append(line)
    decided = [line for line in lines if isinstance(line, DecisionLine)]
    return StoreState(
        records=records,
        trials=trials,
        challenges=challenges,
        submissions=submissions,
        logged=_first((line.log, line) for line in decided),
        policies=policies,
        roots=roots,
        first_seen=_first((line.record, line.received_at) for line in decided),
        first_signed=_first((line.bundle, line.received_at) for line in decided),
    )


def _first(seen: Iterable[tuple[_Key | None, _Value]]) -> dict[_Key, _Value]:
    found: dict[_Key, _Value] = {}
    for key, value in seen:
        if key is not None:
            found.setdefault(key, value)
    return found


def rolled_back(state: StoreState, policy: PolicyStamp, roots: Iterable[RootStamp]) -> str | None:
    """Words for a policy or a root that is older than one that this store was judged by; None where none is."""
    seen = state.policies.get(policy.name)
    if seen is not None and policy.version < seen.version:
        return f"policy {policy.name} is version {policy.version}, and version {seen.version} was seen here"
    if seen is not None and policy.version == seen.version and policy.sha256 != seen.sha256:
        return (
            f"policy {policy.name} version {policy.version} was another file when it was seen here: raise its version"
        )
    for root in roots:
        known = state.roots.get(root.name, ())
        if root.sha256 in known[:-1] and root.sha256 != known[-1]:
            return f"root {root.name!r} is {root.sha256[:12]} again, and {known[-1][:12]} came after it"
    return None


def trials_digest(record: dict[str, Any]) -> str | None:
    """sha256 of what the trials hold, in RFC 8785 form: a record that is called anew has the same one.

    `host` is left out, which is a place in another list. None where there are no trials to speak of.
    """
    trials = record.get("trials")
    if not isinstance(trials, list) or not trials or not all(isinstance(trial, dict) for trial in trials):
        return None
    return sha256_hex(canonical.dumps([{key: trial[key] for key in trial if key != "host"} for trial in trials]))
