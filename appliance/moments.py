"""How a moment is written, for whoever reads one: models, and what may import no model."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

MOMENT: Final = (
    "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?Z"
)
"""Of RFC 3339, in UTC. Which days a month has no pattern knows."""
_FORM: Final = re.compile(MOMENT)


def is_moment(value: object) -> bool:
    """Of this form, and of the calendar."""
    if not isinstance(value, str) or not _FORM.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True
