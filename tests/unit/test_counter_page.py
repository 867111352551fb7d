"""docs/counters.md shows the counter that is tested, and tells of it what the code does."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from appliance.energy.counter import Counter, CounterZone
from appliance.meter.counters.plugin_child import GROUP

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "counters.md").read_text()
SHOWN = re.compile(r"<!-- file: (\S+) -->\n```python\n(.*?)```\n", re.DOTALL)


def test_the_page_shows_the_file_that_is_tested() -> None:
    """To the byte: tests/integration/test_counters_child.py runs it over HTTP (J47)."""
    shown = SHOWN.findall(PAGE)
    assert [path for path, _ in shown] == ["tests/plugins/wall_meter/wall_meter.py"]
    for path, text in shown:
        assert text == (ROOT / path).read_text()


def test_the_package_of_the_page_offers_a_function_that_the_file_has() -> None:
    """Under the group that the child looks in (J47)."""
    package = tomllib.loads(next(text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)))
    module, _, name = package["project"]["entry-points"][GROUP]["wall-meter"].partition(":")
    assert module == "wall_meter"
    assert f"def {name}() ->" in SHOWN.search(PAGE).group(2)  # type: ignore[union-attr]  # it was found above


def test_what_the_page_says_of_a_counter_is_the_protocol() -> None:
    """Every method of `Counter`; no field that a zone has not."""
    table = PAGE[PAGE.index("| it gives") : PAGE.index("Of a zone:")]
    methods = {name for name, one in vars(Counter).items() if callable(one) and not name.startswith("_")}
    assert set(re.findall(r"^\| `(\w+)\(\)`", table, re.MULTILINE)) == methods
    of_zone = PAGE[PAGE.index("| field") : PAGE.index("`summed` is decided")]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", of_zone, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named <= {one.name for one in fields(CounterZone)}
    assert named
