"""docs/energy.md, "Without the package": its script, printed there, makes again what a record states."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from appliance.energy.counter import CounterZone
from appliance.energy.readings import Event, InnerWindow
from appliance.files import store_blob
from appliance.records.plan import trial_keys
from tests import measured_builder
from tests import record_builder as build
from tests.readings_builder import RUN, Rows, at_rest, packed, zone
from tests.sysfs_tree import DRAM_RANGE_UJ, INTEL_RANGE_UJ

PAGE = (Path(__file__).parents[2] / "docs" / "energy.md").read_text()
FIELDS = {"grossUj", "idleUj", "systemUj", "othersUj", "netUj", "marginalUj", "ratioUj", "byRoleUj"}
ZONES = (
    zone("package-0"),
    zone("package-0/dram", path="intel-rapl:0:0", max_range=DRAM_RANGE_UJ),
    zone("package-1", path="intel-rapl:1", unit="mj", max_range=999_999_999, update_period_ns=300_000_000),
    zone("psys", path="intel-rapl:2", max_range=None),
)


def test_the_script_of_the_page_makes_every_part_of_every_counter_again(tmp_path: Path) -> None:
    """With the standard library alone: counters that wrap, fail and step slowly, CPU time by ticks, a drift at rest, a
    model server within and beside exchanges."""
    run = tmp_path / "runs" / "bench"
    kept = record_of(run)
    script = next(text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import gzip" in text)
    again = tmp_path / "again.py"
    again.write_text(script)
    for number in range(kept):
        ended = subprocess.run(
            [sys.executable, "-I", "-S", str(again), str(run), "agent", str(number)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert "OTHER" not in ended.stdout
        found: dict[str, set[str]] = {}
        for line in ended.stdout.splitlines():
            key, field, rest = line.split(" ", 2)
            found.setdefault(key, set()).add(field)
            assert "null" not in rest
        assert found == {one.key: FIELDS for one in ZONES}


def record_of(run: Path) -> int:
    plan = measured_builder.plan(["t1", "t2", "t3"])
    before = at_rest(ZONES, (10.0, 3.0, 20.0, 18.0), seconds=20.0)
    after = at_rest(ZONES, (10.3, 3.05, 20.4, 18.1), seconds=20.0, after_ns=2 * measured_builder.HOUR_NS)
    stamp = measured_builder.meter(("before", before), ("after", after))
    contents = [before, after]
    trials = []
    for number, key in enumerate(trial_keys(plan)):
        contents.append(window(number))
        blobs = {build.blob(one).sha256: one for one in contents}
        trials.append(measured_builder.trial(key, contents[-1], stamp, blobs))
    record = build.record(plan, trials, meter=stamp, record_id=f"{RUN}.agent")
    (run / "records").mkdir(parents=True)
    (run / "records" / "agent.json").write_bytes(record.canonical())
    for content in contents:
        store_blob(run / "blobs", content, build.blob(content).sha256)
    return len(trials)


def window(number: int) -> bytes:
    """Power and CPU time that jump about, or are equal; counters that turn or fail, a machine counted by ticks."""
    chance = random.Random(number)

    def edit(rows: Rows) -> None:
        for column in range(len(ZONES)):
            _walk(rows, column, ZONES[column], chance)
        for row in rows:
            for column in range(len(ZONES), len(row)):
                row[column] = 0
        busy = 10**12
        for before, row in pairwise(rows):
            alike = chance.choice([None, None, 7_000_000])
            for column in range(len(ZONES) + 1, len(row)):
                grown = alike or chance.randrange(60_000_000)
                row[column] = (before[column] or 0) + grown
                busy += grown
            busy += chance.choice([0, 3_000_000])
            row[len(ZONES)] = busy - chance.randrange(4_000_000)
        rows[0][len(ZONES)] = 10**12
        rows[7][0] = rows[8][1] = rows[9][2] = None
        rows[11][len(ZONES)] = None
        rows[13][len(ZONES) + 1] = None

    return packed(
        ZONES,
        (0.0,) * len(ZONES),
        seconds=3.05,
        cpu={"solver": 0.5, "forwarder": 0.1},
        others={("solver", "f00d"): 0.2, ("meter", None): 0.01, ("model", "run"): 0.1},
        inner=(
            InnerWindow("exchange/0", 300_000_000, 600_000_000),
            InnerWindow("exchange/1", 500_000_000, 1_250_000_000),
            InnerWindow("case/1", 0, 3_000_000_000),
        ),
        edit=edit,
        events={15: [Event("cpus", number=2)]},
        trial=number,
        opened_boottime_ns=str(measured_builder.HOUR_NS + number * 60 * 10**9),
        cpu_unit=("ns", "us")[number == 2],
    )


def _walk(rows: Rows, column: int, one: CounterZone, chance: random.Random) -> None:
    turns = {INTEL_RANGE_UJ: 61_035, DRAM_RANGE_UJ: 15_300}
    count = 2**32 - 30
    raw = 999_950_000
    for at, row in enumerate(rows):
        if one.max_range in turns:
            unit = turns[one.max_range]
            count = (count + chance.randrange(5_000_000_000 // unit)) % 2**32 if at else count
            row[column] = count * unit // 1000
        elif one.unit == "mj":
            raw = (raw + (9_000 if at % 3 == 2 else 0)) % 1_000_000_000
            row[column] = raw
        else:
            raw += chance.randrange(6_000_000)
            row[column] = raw
