"""The schemas of files that people write, against the readers that judge them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance import schemas
from appliance.audit.documents import check_file
from appliance.bundle import shipped
from appliance.errors import InputRefused
from appliance.tasks import reader
from appliance.tasks.model import Limits
from appliance.tasks.shapes import LimitsToml, OracleToml, SuiteToml, TaskToml


def test_the_shapes_have_the_reader_s_keys_and_defaults() -> None:
    """The schema of task.toml and suite.toml says what the reader takes, no more and no less (formats 1)."""
    assert set(TaskToml.model_fields) == set(reader.TASK_KEYS)
    assert set(LimitsToml.model_fields) == set(reader.LIMIT_KEYS)
    assert set(OracleToml.model_fields) == set(reader.ORACLE_KEYS)
    assert set(SuiteToml.model_fields) == set(reader.SUITE_KEYS)
    assert LimitsToml().model_dump() == Limits().model_dump(by_alias=False)
    required = json.loads(schemas.committed("task-v1"))["required"]
    assert sorted(required) == ["name", "prompt", "test_cmd", "test_files"]


def shipped_files() -> list[Path]:
    return [
        *shipped("tasks").glob("*/suite.toml"),
        *shipped("tasks").glob("*/*/task.toml"),
        *shipped("tasks").glob("*/checks.json"),
        *shipped("images").glob("*/image.toml"),
        *shipped("images").glob("*/image.lock.json"),
        *shipped("solvers").glob("*.toml"),
    ]


@pytest.mark.parametrize("path", shipped_files(), ids=lambda path: "/".join(path.parts[-3:]))
def test_everything_that_ships_fits_its_own_schema(path: Path) -> None:
    """Tasks, suites, images, locks, solvers, checks (formats 1 to 3)."""
    check_file(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = \n", r"task\.toml:1:8: not TOML"),
        ('name = "a"\nprompt = "p"\ntest_cmd = "t"\ntest_files = []\nnetwork = "lan"\n', r"\$\.network"),
        ('name = "a"\nprompt = "p"\ntest_cmd = "t"\ntest_files = []\ncolour = 1\n', "colour"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    """One line, status 3."""
    path = tmp_path / "task.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputRefused, match=words) as refused:
        check_file(path)
    assert "\n" not in str(refused.value)
