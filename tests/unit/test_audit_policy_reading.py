"""A policy file is one value, or one refusal with its line and key."""

from __future__ import annotations

import inspect
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from appliance import schemas
from appliance.audit.documents import check_file
from appliance.audit.plausibility import RULES
from appliance.audit.plausible_shapes import Plausibility
from appliance.audit.policy import MAX_BYTES, policy_of, read_policy
from appliance.audit.policy_shapes import PolicyToml
from appliance.bundle import shipped
from appliance.cli.main import run
from appliance.digests import sha256_hex
from appliance.errors import InputRefused
from appliance.tasks.toml import parse_toml
from tests.policy_builder import policy, tables, toml

WHO = "https://appliance.local.invalid/somebody"
GOOD = toml(tables())
"""Lines 1 to 3 are schema, name and version; [[signers]] is line 4, [[suites]] line 8."""


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


BAD: dict[str, tuple[str, str, str]] = {
    # what: (the file, place, words)
    "no TOML": (edited('name = "example"', "name = "), "policy.toml:2:8", "not TOML"),
    "a key that nobody knows": (
        edited("version = 1", "version = 1\nvresion = 2"),
        "policy.toml:4: vresion",
        "unknown key",
    ),
    "a key that nobody knows, in a table": (
        GOOD + "[exclusions]\nmost = 1.0\n",
        "policy.toml:16: exclusions.most",
        "unknown key",
    ),
    "a name by its JSON form": (
        edited("version = 1", "version = 1\nleastTier = 2"),
        "policy.toml:4: leastTier",
        "unknown",
    ),
    "a name of the code": (
        edited('schema = "policy-v1"', 'schema_ = "policy-v1"'),
        "policy.toml: schema",
        "is missing",
    ),
    "another schema": (edited("policy-v1", "policy-v2"), "policy.toml:1: schema", "policy-v1"),
    "no version": (edited("version = 1\n", ""), "policy.toml: version", "required key is missing"),
    "a version of 0": (edited("version = 1", "version = 0"), "policy.toml:3: version", "greater than or equal to 1"),
    "a version as text": (edited("version = 1", 'version = "1"'), "policy.toml:3: version", "valid integer"),
    "a version that is true": (edited("version = 1", "version = true"), "policy.toml:3: version", "valid integer"),
    "a version of 2^70": (edited("version = 1", f"version = {2**70}"), "policy.toml: version", "64 bits"),
    "no issuer": (
        edited('issuer = "https://oidc.local.invalid"\n', ""),
        "policy.toml:4: signers[0].issuer",
        "is missing",
    ),
    "half a digest": (edited("a" * 64, "a" * 32), "policy.toml:5: signers[0].root_sha256", "pattern"),
    "a digest in capitals": (edited("a" * 64, "A" * 64), "policy.toml:5: signers[0].root_sha256", "pattern"),
    "an empty identity": (
        edited("https://appliance.local.invalid/somebody", ""),
        "policy.toml:6: signers[0].identity",
        "at least 1",
    ),
    "no suites": (GOOD[: GOOD.index("[[suites]]")], "policy.toml: suites", "is missing"),
    "an empty list of suites": (
        GOOD[: GOOD.index("[[signers]]")] + "suites = []\n",
        "policy.toml:4: suites",
        "at least 1 item",
    ),
    "a limit below nothing": (
        edited('"wall_seconds" = 600.0', '"wall_seconds" = -1'),
        "policy.toml:13: suites[0].limits.wall_seconds",
        "than 0",
    ),
    "a share over one": (
        GOOD + "[exclusions]\nmost_share = 1.5\n",
        "policy.toml:16: exclusions.most_share",
        "less than or equal to 1",
    ),
    "no number": (GOOD + "[exclusions]\nmost_share = nan\n", "policy.toml:16: exclusions.most_share", "finite"),
    "a number without end": (
        GOOD + "[plausibility]\nmost_watts = inf\n",
        "policy.toml:16: plausibility.most_watts",
        "finite",
    ),
    "a blob of no kind": (
        GOOD + '[blobs]\nrequired = [\n  "journal",\n  "jurnal",\n]\n',
        "policy.toml:16: blobs.required[1]",
        "'journal'",
    ),
    "a provenance of none": (GOOD + '[provenance]\nfloor = "best"\n', "policy.toml:16: provenance.floor", "hw_shunt"),
    "a date without quotes": (
        GOOD + '[[revoked]]\nidentity = "x"\nafter = 2026-11-30T12:00:00Z\nreason = "r"\n',
        "policy.toml:17: revoked[0].after",
        "a date or time where a text belongs",
    ),
    "a month of 13": (
        GOOD + '[[revoked]]\nidentity = "x"\nafter = "2026-13-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:17: revoked[0].after",
        "pattern",
    ),
    "a day of no month": (
        GOOD + '[[revoked]]\nidentity = "x"\nafter = "2026-02-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:17: revoked[0].after",
        "day is out of range for month",
    ),
    "a moment of no zone": (
        GOOD + '[[revoked]]\nidentity = "x"\nafter = "2026-11-30T12:00:00"\nreason = "r"\n',
        "policy.toml:17: revoked[0].after",
        "pattern",
    ),
    "a revocation of nobody": (
        GOOD + '[[revoked]]\nafter = "2026-11-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:15: revoked[0]",
        "names exactly one of identity, serial and root_sha256",
    ),
    "a revocation of two": (
        GOOD + '[[revoked]]\nidentity = "x"\nserial = "ab"\nafter = "2026-11-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:15: revoked[0]",
        "names exactly one",
    ),
    "a serial with colons": (
        GOOD + '[[revoked]]\nserial = "AB:CD"\nafter = "2026-11-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:16: revoked[0].serial",
        "pattern",
    ),
    "a serial twice, as two texts": (
        GOOD
        + '[[revoked]]\nserial = "ab"\nafter = "2026-11-30T12:00:00Z"\nreason = "r"\n'
        + '[[revoked]]\nserial = "00AB"\nafter = "2026-11-30T12:00:00Z"\nreason = "r"\n',
        "policy.toml:19: revoked[1]",
        "there already",
    ),
    "a revocation of a name that nobody has": (
        toml(tables(revoked=[{"identity": f"{WHO} ", "after": "2026-11-30T12:00:00Z", "reason": "r"}])),
        "policy.toml:16: revoked[0].identity",
        "has exactly this name",
    ),
    "a revocation of a root that nobody has": (
        toml(tables(revoked=[{"root_sha256": "b" * 64, "after": "2026-11-30T12:00:00Z", "reason": "r"}])),
        "policy.toml:16: revoked[0].root_sha256",
        "has this root",
    ),
    "tasks on the publisher's word, unsaid": (
        toml(tables(suites={"any_tasks": False})),
        "policy.toml:8: suites[0]",
        "or say any_tasks = true",
    ),
    "tasks by their names alone": (
        toml(tables(suites={"tasks": {"t1": {"digest": "1" * 64}, "t2": {}}, "any_tasks": False})),
        "policy.toml:8: suites[0]",
        "give each of `tasks` its digest",
    ),
    "the suite required, and any tasks taken": (
        toml(tables(suites={"any_tasks": True}, blobs={"required": ["suite"]})),
        "policy.toml:14: suites[0].any_tasks",
        "true, and tasks are pinned",
    ),
    "composed images pinned, and any taken": (
        toml(tables(suites={"composed_images": [f"sha256:{'1' * 64}"], "any_composed_image": True})),
        "policy.toml:14: suites[0].composed_images",
        "pinned, and any image is taken",
    ),
    "a key of too many parts": (GOOD + f"{'.'.join('a' * 40_000)} = 1\n", "policy.toml:15:64", "32 parts"),
    "a signer twice": (
        GOOD + GOOD[GOOD.index("[[signers]]") : GOOD.index("[[suites]]")],
        "policy.toml:15: signers[1]",
        "there already",
    ),
    "a suite twice": (GOOD + GOOD[GOOD.index("[[suites]]") :], "policy.toml:15: suites[1]", "there already"),
    "no image pinned": (toml(tables(suites={"images": []})), "policy.toml:8: suites[0]", "or say any_image = true"),
    "images pinned, and any taken": (
        toml(tables(suites={"any_image": True})),
        "policy.toml:14: suites[0].any_image",
        "true, and images are pinned",
    ),
    "nothing to hold limits to": (
        toml(tables(suites={"limits": {}})),
        "policy.toml:8: suites[0]",
        "nothing to hold its limits to",
    ),
    "a share that is never looked at": (
        GOOD + "[completeness]\nmost_missing_share = 0.1\n",
        "policy.toml:16: completeness.most_missing_share",
        "never",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_policy_is_one_refusal_with_its_line_and_key(what: str, tmp_path: Path) -> None:
    """Status 3, one line, and a mend (issue 5: policy file)."""
    text, place, words = BAD[what]
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(InputRefused) as refused:
        read_policy(tmp_path / "policy.toml")
    assert (refused.value.where or "").removeprefix(f"{tmp_path}/") == place
    assert words in refused.value.message
    assert "\n" not in str(refused.value)
    assert refused.value.status == 3


TAKES_NOTHING = {
    "no signer": ({"signers": []}, "signers", "no signer is listed, and unsigned records are not taken"),
    "no signer, verified": ({"signers": [], "least_tier": "verified"}, "signers", "what is unsigned is never verified"),
    "no verifier": ({"least_tier": "verified"}, "verifiers", "no verifier is listed"),
}


@pytest.mark.parametrize("what", TAKES_NOTHING)
def test_a_policy_that_can_take_nothing_says_so_when_it_is_read(what: str) -> None:
    """A verification over nothing is a refusal, and so is a policy for one (issue 5, attest 4)."""
    changes, key, words = TAKES_NOTHING[what]
    with pytest.raises(InputRefused, match=words) as refused:
        policy(**changes)
    assert (refused.value.where or "").endswith(f": {key}")
    assert "can ever be accepted" in refused.value.message or "can be accepted" in refused.value.message


def test_a_policy_without_signers_takes_what_is_only_reported() -> None:
    """Row P2: outright, and shown apart."""
    assert policy(signers=[], least_tier="reported").signers == ()


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "too long", "not UTF-8", "nested", "empty"])
def test_what_is_no_policy_file_is_refused_within_bounds(kind: str, tmp_path: Path) -> None:
    """No wait for a writer, no unbounded read, no traceback (attest 5, row P11)."""
    path = tmp_path / "policy.toml"
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "too long":
            path.write_bytes(b"#" * (MAX_BYTES + 1))
        case "not UTF-8":
            path.write_bytes(b'name = "\xff"\n')
        case "nested":
            path.write_text("a = " + "[" * 100_000)
        case "empty":
            path.write_text("")
    with pytest.raises(InputRefused) as refused:
        read_policy(path)
    assert str(path) in (refused.value.where or "")


def test_a_line_is_found_without_trying_every_line_of_a_hostile_file() -> None:
    """Thousands of lines that look like the key: the refusal names the key alone (issue 5: hostile input)."""
    text = GOOD + "[suites.tasks]\n" + "".join(f"most{n} = {{}}\n" for n in range(8_000)) + "most = 1\n"
    with pytest.raises(InputRefused) as refused:
        policy_of(text.encode(), "policy.toml")
    assert (refused.value.where or "").endswith("suites[0].tasks.most")


def test_a_policy_has_the_digest_of_its_bytes_and_a_name_for_verdicts() -> None:
    """What a VSA names: where it is published, and which bytes it was (row P1)."""
    read = policy_of(GOOD.encode(), "policy.toml")
    assert read.digest == sha256_hex(GOOD.encode())
    assert read.published_at == "https://bench-appliance.invalid/policies/example/1"
    assert policy(uri="https://board.example/policy.toml").published_at == "https://board.example/policy.toml"


def example() -> Path:
    return shipped("schemas").parent / "docs" / "examples" / "policy.toml"


def test_the_example_in_the_docs_reads_and_fits_the_published_schema() -> None:
    """By the door that `schema check` uses, and by the one that judges (issue 5: schema published)."""
    assert check_file(example()) == "policy-v1"
    assert read_policy(example()).name == "example-board"


def test_the_least_policy_of_the_page_is_one() -> None:
    """docs/policy.md: what a reader copies first reads, and says no more than it has to (issue 5)."""
    page = example().parent.parent / "policy.md"
    least = page.read_text().split("```toml\n", 1)[1].split("```", 1)[0]
    assert policy_of(least.encode(), "policy.toml").name == "board"
    for line in least.splitlines():
        if line and not line.startswith("[blobs]"):
            with pytest.raises(InputRefused):
                policy_of(least.replace(f"{line}\n", "", 1).encode(), "policy.toml")


def test_a_key_that_slid_into_a_table_is_told_where_it_belongs() -> None:
    """TOML's own trap: the mend is to move it, not to look for its name."""
    text = GOOD.replace("[[suites]]", 'least_tier = "auditable"\n[[suites]]', 1)
    with pytest.raises(InputRefused) as refused:
        policy_of(text.encode(), "policy.toml")
    assert refused.value.message.startswith("unknown key")
    assert refused.value.mend == "a key of the whole policy: it stands above the first [table]"


def test_every_number_that_a_formula_reads_is_told_to_who_fails_it() -> None:
    """docs/policy.md: a bound that nobody is told cannot be met (row P8)."""
    for rule in RULES:
        source = inspect.getsource(rule.formula)
        for name, called in inspect.getmembers(inspect.getmodule(rule.formula), inspect.isfunction):
            source += inspect.getsource(called) if f" {name}(" in source else ""
        read = set(re.findall(r"rules\.(\w+)", source))
        assert (rule.name, read) == (rule.name, set(rule.bounds))


def test_the_example_shows_every_table_of_numbers_with_its_defaults() -> None:
    """What it says of them is what the code has: nobody reads another default there (issue 5)."""
    shown = parse_toml(example().read_bytes(), "example")
    for name in ("completeness", "exclusions", "provenance", "stamps", "host"):
        default = PolicyToml.model_fields[name].default.model_dump(mode="json")
        assert shown[name] == default, name
    defaults = Plausibility().model_dump()
    assert shown["plausibility"] == defaults


def properties(schema: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    found = [("", schema), *schema["$defs"].items()]
    return [(owner, name, about) for owner, part in found for name, about in part.get("properties", {}).items()]


def test_every_number_of_plausibility_states_its_default_and_the_reason_of_it() -> None:
    """In the schema itself: `default` and `description` (issue 5)."""
    schema = json.loads(schemas.committed("policy-v1"))
    rules = schema["$defs"]["Plausibility"]["properties"]
    assert len(rules) == len(Plausibility.model_fields)
    for name, about in rules.items():
        assert "default" in about, name
        assert len(about["description"]) > 60, name
    for owner in ("Exclusions", "Completeness", "Freshness", "HostRules", "Stamps", "ProvenanceRules"):
        for name, about in schema["$defs"][owner]["properties"].items():
            assert "default" in about, name


def test_no_table_of_a_policy_takes_a_key_that_it_does_not_know() -> None:
    """Closed, all the way down (issue 5)."""
    schema = json.loads(schemas.committed("policy-v1"))
    assert all(
        part["additionalProperties"] is False for part in (schema, *schema["$defs"].values()) if "properties" in part
    )


def test_the_door_for_schemas_finds_what_a_schema_cannot_say(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`schema check` on a policy: the line, and contradictions too; status 3 (formats 6)."""
    path = tmp_path / "board.toml"
    path.write_text(GOOD)
    assert run(["schema", "check", str(path)]) == 0
    path.write_text(toml(tables(signers=[])))
    assert run(["schema", "check", str(path)]) == 3
    assert "no signer is listed" in capfd.readouterr().err


def test_the_page_about_policies_names_every_check_beyond_belief_and_every_table() -> None:
    """docs/policy.md: a check that nobody can read about is no rule (issue 5)."""
    page = (shipped("schemas").parent / "docs" / "policy.md").read_text()
    for name in (rule.name for rule in RULES):
        assert f"| {name} |" in page
    numbers = [name for name in Plausibility.model_fields if f"`{name}`" not in page]
    assert numbers == []
    tables = [name for name, field in PolicyToml.model_fields.items() if isinstance(field.default, BaseModel)]
    assert [name for name in tables if f"[{name}]" not in page] == []
