"""The committed schemas against the models, and against what formats promises of a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from appliance import schemas
from appliance.bundle import shipped
from appliance.wire import Comparison
from attest.statement import NAMESPACE as ATTEST_NAMESPACE


@pytest.mark.parametrize("name", schemas.ROOTS)
def test_the_committed_schema_is_what_the_models_say(name: str) -> None:
    """Byte for byte; `python -m appliance.schemas` makes them anew (issue: Record)."""
    assert (shipped("schemas") / f"{name}.schema.json").read_bytes() == schemas.generated(name)


@pytest.mark.parametrize("name", schemas.ROOTS)
def test_every_schema_is_a_valid_draft_2020_12_schema_under_our_name(name: str) -> None:
    """The dialect's own meta-schema holds; the `$id` derives from the one namespace (formats 8)."""
    schema = json.loads(schemas.committed(name))
    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"https://bench-appliance.invalid/schemas/{name}.schema.json"
    assert schema["$id"].startswith(ATTEST_NAMESPACE)


def test_the_version_table_is_what_the_schemas_are() -> None:
    """schemas/README.md names every schema with its digest, and no schema is there that it does not name."""
    assert (shipped("schemas") / "README.md").read_text() == schemas.version_table()
    assert schemas.names() == tuple(sorted(schemas.ROOTS))


def objects(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in schema.get("$defs", {}).items():
        if "properties" in definition:
            yield name, definition
    if "properties" in schema:
        yield "the root", schema


CAME_LATER = {
    "PlannedEnergy": {"gpuSharing"},
    "TrialPlan": {"upstream"},
    "PassSummary": {"local", "cloud", "usage"},
}
"""Not written while they have their default, so that the bytes and digests of older plans stay what they were."""


@pytest.mark.parametrize("name", ["record-v1", "plan-v1", "run-plan-v1", "journal-v1"])
def test_every_field_says_how_it_is_compared_and_no_other_field_is_let_in(name: str) -> None:
    """`x-compare` with both columns on each; objects are closed; all fields are always there (formats 6)."""
    words = set(get_args(Comparison))
    for owner, definition in objects(json.loads(schemas.committed(name))):
        assert definition["additionalProperties"] is False, owner
        later = CAME_LATER.get(owner, {"upstream"} if owner == "the root" and name == "plan-v1" else set())
        assert sorted(definition.get("required", [])) == sorted(definition["properties"].keys() - later), owner
        for field, about in definition["properties"].items():
            assert set(about["x-compare"]) == {"deterministic", "live"}, f"{owner}.{field}"
            assert set(about["x-compare"].values()) <= words, f"{owner}.{field}"


PROMISED = {
    # formats.md 6, field by field
    "": "schema recordId plan planDigest suite solver model judge measures axes mode selfCorrect auto challenge "
    "complete dryRun warnings version commit date harness hosts images meter prices trust baselines trials summary "
    "journal",
    "suite": "name version digest weight archive license checks",
    "solver": "name kind digest version commit source binarySha256",
    "model": "name provider digest sampling engine",
    "model.engine": "build slots threads",
    "judge": "name version promptDigest model",
    "measures": "schema digest coverage",
    "harness": "name version commit dirty digest",
    "hosts[]": "id cpu cores memory gpus kernel cgroup engine os fitness noisy",
    "images[]": "role pin locked",
    "meter": "name version counters idle calibration mode reason",
    "prices": "source version",
    "baselines[]": "task image exit timedOut ids verdict digest",
    "trials[]": "key host outcome reason detail cause afterSubject startedAt wallSeconds latencyMs solverExit "
    "protocolExit grade limits network cpuSeconds cpuSource peakMemoryMib diskMib oomKills pidsDenied streams energy "
    "usage costUsd exchanges cassette replayLevel observations faults artifacts harvest response stage hint match "
    "score reportedUj",
    "trials[].key": "task pass rollout case",
    "trials[].grade": "oracle exit timedOut ids testsDigestBefore testsDigestAfter",
    "trials[].limits": "asked effective",
    "trials[].network": "asked effective",
    "trials[].streams": "stdout stderr",
    "trials[].streams.stdout": "bytes sha256 truncated blob",
    "trials[].usage": "subject judge claimed",
    "trials[].costUsd": "subject judge claimed",
    "trials[].harvest": "diff changed dropped restored",
    "trials[].energy": "total byRole zones parts readings local cloud",
    "trials[].energy.total": "provenance claimed basis source scope grossUj idleUj systemUj netUj marginalUj "
    "uncertaintyUj lodUj interval model inputs comparable missing bounds belowFloor flags",
    "trials[].energy.parts[]": "label stage",
    "summary": "passes",
}


@pytest.mark.parametrize("path", PROMISED)
def test_a_record_has_every_field_that_the_formats_promise(path: str) -> None:
    """From its first day, so that no later feature needs a v2 (formats 6)."""
    schema = json.loads(schemas.committed("record-v1"))
    here = schema
    for step in filter(None, path.split(".")):
        here = resolved(schema, resolved(schema, here)["properties"][step.removesuffix("[]")])
        if step.endswith("[]"):
            here = resolved(schema, here["items"])
    missing = set(PROMISED[path].split()) - set(resolved(schema, here)["properties"])
    assert not missing


def resolved(schema: dict[str, Any], here: dict[str, Any]) -> dict[str, Any]:
    """Through `$ref` and through the one object of a nullable field."""
    if "$ref" in here:
        return resolved(schema, schema["$defs"][here["$ref"].rsplit("/", 1)[1]])
    branches = [branch for branch in here.get("anyOf", []) if "$ref" in branch]
    return resolved(schema, branches[0]) if branches else here


def test_the_table_of_comparisons_in_the_docs_is_that_of_the_schema() -> None:
    """docs/record.md is made from `x-compare`, not kept by hand (formats 6)."""
    page = (shipped("schemas").parent / "docs" / "record.md").read_text()
    assert page == schemas.with_table(page)
    assert "| TrialResult |" in page
