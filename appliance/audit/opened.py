"""The record as a model, read once for all checks of a list."""

from __future__ import annotations

from pydantic import ValidationError

from appliance.records.record import Record
from appliance.wire import first_path, first_problem
from attest.checks import Verified
from attest.errors import Refused


class Opened:
    def __init__(self) -> None:
        self._read: tuple[bytes, Record] | None = None

    def record(self, verified: Verified) -> Record:
        """Raises Refused (record)."""
        if self._read is None or self._read[0] is not verified.record_bytes:
            try:
                # That these bytes are strict JSON, and its canonical form, is what `verified` says already.
                record = Record.model_validate_json(verified.record_bytes, by_alias=True, by_name=False)
            except ValidationError as error:
                raise Refused(
                    "record", first_problem(error), where=first_path(error), word="schema_mismatch"
                ) from error
            self._read = (verified.record_bytes, record)
        return self._read[1]
