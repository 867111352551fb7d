"""The header of readings-v1 as a JSON Schema.

Beside the code that reads it, not in it: the daemon writes readings, and keeps to the standard library. A test holds
what `energy.readings` takes and what the daemon's writer makes to this.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from appliance.energy.readings import Header

_WHAT: Final = """\
The first line of a window's readings: JSON lines in UTF-8, in one or several gzip members of whole lines. Each line
after it is one of three.

A block, an object {"zones": [ids], "cgroups": [ids], "raw": [decimal string or null, ...]}: the columns from here on,
and their absolute numbers. Columns are the zones, the CPU time of the machine, the cgroups: raw has one more than zones
and cgroups together. It stands at the moment of the sample before it; the first one at the opening.

A sample, an array [dt, difference or null, ...]: nanoseconds since the sample before, then what was added to each
column since its last number that was read, in the columns' order.

An event, an object {"event": "gap"|"suspend"|"cpus"|"gpu"|"late"|"zone_gone"|"sm"}, of the block or sample that
follows, with subject (a zone's id), word, number and cgroups (ids) where they say something.

No number has a fraction or is over 2^53; the last sample stands at lengthNs."""


@dataclass(frozen=True, kw_only=True)
class ReadingsHeader(Header):
    __pydantic_config__: ClassVar = ConfigDict(
        alias_generator=to_camel, extra="forbid", strict=True, use_attribute_docstrings=True
    )
    schema: Literal["readings-v1"]


HEADER: Final[TypeAdapter[Any]] = TypeAdapter(Annotated[ReadingsHeader, Field(description=_WHAT)])
