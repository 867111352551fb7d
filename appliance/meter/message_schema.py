"""The meter's messages as a JSON Schema (meter-messages-v1). Never imported by the daemon, which keeps to the standard
library; a test holds what the daemon takes and says to this."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

from appliance.meter.daemon.messages import (
    Close,
    Closed,
    Error,
    Open,
    Opened,
    Prepare,
    Prepared,
    Release,
    Released,
    Status,
    StatusAnswer,
    Watch,
    WatchLine,
)

MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(
    Annotated[
        Prepare
        | Open
        | Close
        | Release
        | Status
        | Watch
        | Error
        | Prepared
        | Opened
        | Closed
        | Released
        | StatusAnswer
        | WatchLine,
        Field(description="One line of the meter's socket: what is asked, then what is answered."),
    ],
    config=ConfigDict(alias_generator=to_camel, extra="forbid", strict=True, use_attribute_docstrings=True),
)
