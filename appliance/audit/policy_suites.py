"""Rows P7 and H5: a suite by its digest, and what its trials ran under, held to what is pinned.

Two ways to know what was pinned, and either names field, wanted and found: the policy says it, or the suite's own files
do, which are a blob of the record and have the digest that the policy lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from pydantic.alias_generators import to_camel

from appliance.audit.plans import first_difference, short
from appliance.audit.policy import Policy
from appliance.audit.policy_shapes import LimitPins, SuiteRule, TaskPins
from appliance.digests import sha256_hex
from appliance.errors import Refusal
from appliance.reading import read_regular
from appliance.records.plan import PlannedTask
from appliance.records.record import Record
from appliance.scratch import shared_scratch
from appliance.tasks.archive import MAX_BYTES, unpack_suite
from appliance.tasks.model import TaskSpec
from appliance.tasks.reader import read_suite
from attest.checks import NotRun
from attest.errors import Refused

_LIMITS: Final = tuple(LimitPins.model_fields)
_NO_PINS: Final = TaskPins()


def is_listed(policy: Policy, record: Record) -> None:
    if policy.suite(record.suite.digest) is None:
        wanted = ", ".join(f"{rule.name} {rule.digest[:12]}" for rule in policy.suites[:8])
        raise _other("$.suite.digest", wanted, f"{record.suite.name} {record.suite.digest[:12]}", "suites")


def as_pinned(policy: Policy, record: Record) -> None:
    rule = _rule(policy, record)
    at = f"suites[{policy.suites.index(rule)}]"
    plan = record.plan
    if plan.limit_overrides:
        raise _other("$.plan.limitOverrides", "none", plan.limit_overrides, at)
    for name in ("filtered", "quarantined"):
        for index, task in enumerate(getattr(plan, name)):
            if task not in rule.may_lack:
                raise _other(f"$.plan.{name}[{index}]", f"only {_listed(rule.may_lack)}", task, f"{at}.may_lack")
    found = {task.spec.name for task in plan.tasks}
    if rule.tasks:
        for name in sorted(set(rule.tasks) - found - set(rule.may_lack)):
            raise _other("$.plan.tasks", name, "no such task", f"{at}.tasks")
        for name in sorted(found - set(rule.tasks)):
            raise _other("$.plan.tasks", "no such task", name, f"{at}.tasks")
    for index, planned in enumerate(plan.tasks):
        for path, wanted, ran_under, key in _pins(rule, planned):
            if wanted != ran_under:
                raise _other(f"$.plan.tasks[{index}].{path}", wanted, ran_under, f"{at}.{key}")


def _pins(rule: SuiteRule, planned: PlannedTask) -> Iterator[tuple[str, Any, Any, str]]:
    """(path below the planned task, wanted, found, key below the rule) of all that is pinned of a task."""
    spec = planned.spec
    own = rule.tasks.get(spec.name, _NO_PINS)
    mine = f"tasks.{spec.name}" if spec.name in rule.tasks else ""
    if own.digest is not None:
        yield "spec.digest", own.digest, spec.digest, f"{mine}.digest"
    network, key = (own.network, f"{mine}.network") if own.network is not None else (rule.network, "network")
    if network is not None:
        yield "spec.network", network, spec.network, key
    for name in _LIMITS:
        wanted, key = getattr(own.limits, name), f"{mine}.limits.{name}"
        if wanted is None:
            wanted, key = getattr(rule.limits, name), f"limits.{name}"
        if wanted is not None:
            yield f"spec.limits.{to_camel(name)}", wanted, getattr(spec.limits, name), key
    image = planned.images.task.config
    if own.image is not None:
        yield "images.task.config", own.image, image, f"{mine}.image"
    elif rule.images and image not in rule.images:
        yield "images.task.config", _listed(rule.images), image, "images"
    composed, taken = planned.images.composed.config, rule.composed_images
    if planned.images.solver is not None and not (rule.any_image or rule.any_composed_image) and composed not in taken:
        yield "images.composed.config", _listed(taken), composed, "composed_images"


def as_its_files_say(policy: Policy, record: Record, blobs: Path | None) -> None:
    """Every task of the plan as the suite's own files have it, from the archive that the record carries.

    Raises NotRun where there is no archive: the policy's own pins were held already, and where it has none it
    requires the archive.
    """
    rule = _rule(policy, record)
    archive = record.suite.archive
    if archive is None or blobs is None or not (blobs / "sha256" / archive.sha256).exists():
        raise NotRun("the suite's archive is not among the blobs", acceptable=True)
    if archive.bytes > MAX_BYTES:
        words = f"{archive.bytes} bytes, over the bound of {MAX_BYTES}"
        raise Refused("blob", words, where="$.suite.archive", word="blob_mismatch")
    files = _files(blobs, archive.sha256)
    if files.digest != record.suite.digest:
        raise _other("$.suite.archive", record.suite.digest, files.digest, "the suite's digest")
    for name in ("version", "weight", "timeout_resolves"):
        wanted, found = getattr(files, name), getattr(record.plan.suite, name)
        if wanted != found:
            raise _other(f"$.plan.suite.{to_camel(name)}", wanted, found, "the suite's files")
    for index, planned in enumerate(record.plan.tasks):
        here = f"$.plan.tasks[{index}].spec"
        spec = files.tasks.get(planned.spec.name)
        if spec is None:
            raise _other(f"{here}.name", "a task of the suite", planned.spec.name, "the suite's files")
        if spec != planned.spec:
            path, wanted, found = first_difference(spec.json_value(), planned.spec.json_value(), here)
            raise _other(path, wanted, found, "the suite's files")
    left_out = set(files.tasks) - {planned.spec.name for planned in record.plan.tasks} - set(rule.may_lack)
    if left_out:
        raise _other("$.plan.tasks", min(left_out), "no such task", "the suite's files")


@dataclass(frozen=True)
class _Files:
    """What a suite's files say."""

    digest: str
    version: str
    weight: float
    timeout_resolves: bool
    tasks: dict[str, TaskSpec]


@lru_cache(maxsize=8)
def _files(blobs: Path, sha256: str) -> _Files:
    """Kept, since many records carry one suite: what it says follows from its digest, which is checked here."""
    where = "$.suite.archive"
    try:
        content = read_regular(blobs / "sha256" / sha256, MAX_BYTES, follow=False)
        if sha256_hex(content) != sha256:
            raise Refused("blob", "blob has another digest", where=where, word="blob_mismatch")
        with shared_scratch() as scratch:
            unpack_suite(content, scratch / "suite", where)
            suite = read_suite(scratch / "suite")
            tasks = {task.spec.name: task.spec for task in suite.tasks}
    except OSError as error:
        raise Refused("blob", error.strerror or str(error), where=where, word="blob_missing") from error
    except Refusal as error:
        raise Refused("policy", f"no suite: {error.message}", where=where, word="policy") from error
    return _Files(suite.digest, suite.version, suite.weight, suite.timeout_resolves, tasks)


def _rule(policy: Policy, record: Record) -> SuiteRule:
    rule = policy.suite(record.suite.digest)
    if rule is None:
        raise NotRun("its suite is none of the policy's", acceptable=True)  # the check before has refused it
    return rule


def _listed(names: tuple[str, ...]) -> str:
    return " or ".join(names[:4]) + (" ..." if len(names) > 4 else "") if names else "none"


def _other(where: str, wanted: object, found: object, by: str) -> Refused:
    """Row H5: field, wanted, found."""
    return Refused("policy", f"wanted {short(wanted)} ({by}), found {short(found)}", where=where, word="policy")
