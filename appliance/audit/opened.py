"""The record as a model, read once for all checks of a list."""

from __future__ import annotations

from typing import NoReturn

from pydantic import ValidationError

from appliance.records.record import Record
from appliance.wire import first_path, first_problem
from attest.checks import Verified
from attest.errors import Refused


class Opened:
    """What the bytes of a record come to: the model, or the one refusal of it, which every check then raises."""

    def __init__(self) -> None:
        self._read: tuple[bytes, Record | Refused] | None = None

    def record(self, verified: Verified) -> Record:
        """Raises Refused (record): for the same bytes always the same one."""
        if self._read is None or self._read[0] is not verified.record_bytes:
            self._read = (verified.record_bytes, _record(verified))
        found = self._read[1]
        if isinstance(found, Refused):
            raise found.with_traceback(None)
        return found

    @property
    def found(self) -> Record | None:
        """What was read so far; None where nothing was asked, or nothing could be read."""
        read = self._read[1] if self._read is not None else None
        return read if isinstance(read, Record) else None

    def refuse(self, verified: Verified, refusal: Refused) -> NoReturn:
        """Nothing further is read of a record that does not fit its schema: all that is asked of it ends here."""
        self._read = (verified.record_bytes, refusal)
        raise refusal


def _record(verified: Verified) -> Record | Refused:
    try:
        # That these bytes are strict JSON, and its canonical form, is what `verified` says already.
        return Record.model_validate_json(verified.record_bytes, by_alias=True, by_name=False)
    except ValidationError as error:
        return Refused("record", first_problem(error), where=first_path(error), word="schema_mismatch")
