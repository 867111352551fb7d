"""docs/energy.md against the code: its recipe runs, and no flag, label or field of it is another than the record's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.energy.uncertainty import TermName
from appliance.files import store_blob
from appliance.records.energy import EnergyFigure
from appliance.records.words import ENERGY_FLAGS
from tests.measured_builder import measured, plan

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "energy.md").read_text()


def test_the_recipe_by_which_a_doubter_makes_joules_again_runs_as_printed(tmp_path: Path) -> None:
    """Copied out of the page, run beside a run folder: the same net twice a line (J44)."""
    found = measured(plan(["t1", "t2"], solver="reference", kind="reference"))
    run = tmp_path / "runs" / "bench"
    (run / "records").mkdir(parents=True)
    (run / "records" / "reference.json").write_bytes(found.record.canonical())
    for digest, content in found.blobs.items():
        store_blob(run / "blobs", content, digest)
    recipe = next(text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "window_of" in text)
    ended = subprocess.run(
        [sys.executable, "-c", recipe], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert [line[0] for line in lines] == ["t1", "t2"]
    for _, stated, again in lines:
        assert stated == again
        assert int(stated) > 0


def test_every_flag_of_the_schema_stands_in_the_page_and_no_other() -> None:
    """One list (formats 6): a flag that nobody explains says nothing."""
    section = PAGE[PAGE.index("\n## Flags") : PAGE.index("\n## Making them again")]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert {flag for row in rows for flag in re.findall(r"`([a-z0-9_]+)`", row)} == ENERGY_FLAGS


def test_every_term_of_the_uncertainty_stands_in_the_page() -> None:
    """The budget is printed by name (3.4)."""
    for name in TermName.__args__:  # type: ignore[attr-defined]
        assert f"| `{name}` |" in PAGE


@pytest.mark.parametrize("field", ["grossUj", "idleUj", "systemUj", "othersUj", "netUj", "marginalUj", "ratioUj"])
def test_every_part_of_gross_is_explained_under_its_wire_name(field: str) -> None:
    """What the record calls it is what the page calls it."""
    assert f"| `{field}` |" in PAGE
    assert field in {info.alias for info in EnergyFigure.model_fields.values()}
