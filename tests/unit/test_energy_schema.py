"""readings-v1.schema.json against what writes readings and what reads them."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from appliance import schemas
from appliance.energy.readings import InnerWindow, Malformed, header_line, pack, unpack
from tests.measured_builder import window, zones
from tests.readings_builder import at_rest, cgroups, header, simulated


def first_line(content: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(gzip.decompress(content).splitlines()[0])
    return parsed


def taken(value: dict[str, Any]) -> bool:
    try:
        unpack(pack(json.dumps(value).encode() + b"\n"))
    except Malformed:
        return False
    return True


def test_what_is_written_at_the_head_of_readings_holds() -> None:
    """Every field of it: a trial's, a look at rest, a simulated counter's with a case inside."""
    made = header(
        [simulated(flags=("mirrored_dies",))],
        cgroups(["solver"], [("solver", "f00d"), ("meter", None)]),
        10**9,
        inner=(InnerWindow("case 1", 0, 5),),
        cpu_after_close_ns=7,
        flags=("thinned",),
    )
    for content in (window(0), at_rest(zones(), (10.0, 3.0, 18.0)), pack(header_line(made))):
        assert schemas.first_problem("readings-v1", first_line(content)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "readings-v2"},
        {"run": None},
        {"lengthNs": "7"},
        {"lengthNs": 7.5},
        {"cpuUnit": "s"},
        {"zones": [{}]},
        {"cgroups": {}},
        {"cgroups": [{"id": "c0", "role": "solver"}]},
        {"inner": [{"label": "case", "opened_ns": 0, "closed_ns": 1}]},
        {"another": 1},
        {"flags": "thinned"},
    ],
)
def test_what_is_no_header_is_refused_by_the_schema_and_by_the_reader(change: dict[str, Any]) -> None:
    """Neither lets in a shape that the other does not."""
    value = first_line(window(0))
    assert taken(value)
    changed = {**value, **change}
    assert schemas.first_problem("readings-v1", changed) is not None
    assert not taken(changed)


@pytest.mark.parametrize("key", sorted(first_line(window(0))))
def test_what_may_be_left_out_is_the_same_for_both(key: str) -> None:
    """What has a default, and nothing else."""
    value = first_line(window(0))
    del value[key]
    assert (schemas.first_problem("readings-v1", value) is None) is taken(value)
