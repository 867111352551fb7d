"""Files at the door, and the verb that holds them to their schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from appliance import schemas
from appliance.audit.documents import check_file, read_record
from appliance.audit.opened import Opened
from appliance.cli.main import run
from appliance.errors import InputRefused
from attest import canonical
from attest.checks import Verified
from attest.errors import Refused
from tests import record_builder as build


def written(folder: Path, content: bytes, name: str = "record.json") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_genuine_record_holds(tmp_path: Path) -> None:
    """What `fold` makes passes schema and model (J24)."""
    record = build.record(build.plan(["t1", "t2"], passes=2))
    assert read_record(written(tmp_path, record.canonical())) == record


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b"", "$"),
        (b"\xef\xbb\xbf{}", "$"),
        (b"{", "$"),
        (b"[]", "$.schema"),
        (b'{"schema":"record-v9"}', "$.schema"),
        (b'{"schema":"record-v1"}', "$"),
        (b'{"schema":"record-v1","schema":"record-v1"}', "$"),
        (b'{"a":NaN}', "$"),
        (b"\xff\xfe", "$"),
        (b"[" * 100_000, "$"),
        (b'{"a":' + b"9" * 30 + b"}", "$"),
    ],
)
def test_anything_else_is_refused_in_one_line_with_file_and_place(tmp_path: Path, content: bytes, place: str) -> None:
    """Status 3 for each malformed record: file, JSON path, words (issue: Bad input; J25, V21)."""
    path = written(tmp_path, content)
    with pytest.raises(InputRefused) as refused:
        read_record(path)
    assert refused.value.status == 3
    assert str(refused.value).startswith(f"{path}: {place}: ")
    assert "\n" not in str(refused.value)


def changed(change: dict[str, Any]) -> bytes:
    value = build.record().json_value()
    value.update(change)
    return canonical.dumps(value)


def test_a_record_that_is_not_its_own_canonical_form_is_refused(tmp_path: Path) -> None:
    """A line feed at the end is enough (V3, V21)."""
    content = build.record().canonical()
    read_record(written(tmp_path, content))
    with pytest.raises(InputRefused, match="canonical"):
        read_record(written(tmp_path, content + b"\n"))


def test_a_python_name_in_place_of_the_wire_name_is_refused(tmp_path: Path) -> None:
    """`record_id` is no `recordId`: a field has one name on disk."""
    value = build.record().json_value()
    value["record_id"] = value.pop("recordId")
    content = canonical.dumps(value)
    with pytest.raises(InputRefused, match=r"record_id|recordId"):
        read_record(written(tmp_path, content))


def test_the_schema_alone_refuses_an_estimate_without_its_label() -> None:
    """`interval`, `model`, `inputs` are required of a modelled figure by the JSON Schema itself (L1)."""
    for field in ("interval", "model", "inputs"):
        value = build.record().json_value()
        value["trials"][0]["energy"]["total"][field] = None
        problem = schemas.first_problem("record-v1", value)
        assert problem is not None
        assert problem[0] == f"$.trials[0].energy.total.{field}"


def test_plans_verdicts_and_journals_are_checked_by_their_own_schema(tmp_path: Path) -> None:
    """`schema check` takes the name that the file states, or its ending for a journal."""
    of = build.plan()
    assert check_file(written(tmp_path, of.canonical(), "plan.json")) == "plan-v1"
    journal = build.journal_bytes(of, [build.baseline()], [build.trial()])
    assert check_file(written(tmp_path, journal, "journal.jsonl")) == "journal-v1"
    with pytest.raises(InputRefused, match=r"journal\.jsonl:3"):
        check_file(
            written(tmp_path, journal.replace(b'"baseline_', b'"x', 1).replace(b'"t1"', b"7", 1), "journal.jsonl")
        )


def test_the_verb_lists_shows_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`appliance schema list|show|check`: statuses 0, 2 and 3; `--json` is one document."""
    good = written(tmp_path, build.record().canonical())
    assert run(["schema", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"record-v1", "plan-v1", "journal-v1", "verdict-v1"} <= {row["name"] for row in listed}
    assert run(["schema", "show", "record-v1"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "record-v1"
    assert run(["schema", "show", "record-v7"]) == 2
    assert "record-v1" in capsys.readouterr().err
    assert run(["schema", "check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: holds as record-v1\n"
    bad = written(tmp_path, changed({"complete": "yes"}), "bad.json")
    assert run(["schema", "check", str(bad)]) == 3
    assert f"{bad}: $.complete" in capsys.readouterr().err
    assert run(["schema", "check", str(tmp_path / "none.json")]) == 3
    capsys.readouterr()


def test_of_a_thousand_findings_the_best_is_told_and_no_more_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of empty trials broke seven million rules, and each was looked at: four minutes (row P7)."""
    made = 0

    class Counting:
        def iter_errors(self, value: Any) -> Iterator[Any]:
            nonlocal made
            for error in plain.iter_errors(value):
                made += 1
                yield error

    plain = schemas._validator("record-v1")
    monkeypatch.setattr(schemas, "_validator", lambda _: Counting())
    value = build.record(build.plan(["t1"])).json_value()
    told = schemas.first_problem("record-v1", {**value, "trials": [{}] * 1000})
    assert told is not None
    assert told[0].startswith("$.trials[")
    assert made == 1000


def test_a_record_that_cannot_be_read_is_refused_by_the_one_refusal() -> None:
    """Whichever check asks, and whether schema or model said it; what was read is not read again."""
    opened = Opened()
    bad = _verified(b"[]")
    assert opened.found is None
    seen = []
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            opened.record(bad)
        seen.append(refused.value)
    assert seen[0] is seen[1]
    said = Refused("record", "by the schema")
    with pytest.raises(Refused):
        opened.refuse(bad, said)
    with pytest.raises(Refused) as refused:
        opened.record(bad)
    assert refused.value is said
    assert opened.found is None
    record = build.record(build.plan(["t1"]))
    good = _verified(record.canonical())
    assert opened.record(good) is opened.record(good) is opened.found
    assert opened.found == record


def _verified(content: bytes) -> Verified:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Verified(content, canonical.loads(content), {}, "", "", moment, "")
