"""The checks that know records and energy, in the order they run; `attest.verify` numbers and makes them.

Each one stands alone: it reads the record that was signed, and says of one question what is wrong and where.

  1. the record fits its schema and its model            class record
  2. it is no dry run                                    class record
  3. its plan has the digest it states                   class aggregate
  4. its trials are those of the plan, in order          class aggregate
  5. its stamps say what the plan says                   class aggregate
  6. limits and network in force are those asked for     class aggregate
  7. its baselines bear out what was excluded            class aggregate
  8. every outcome follows from its grade                class aggregate
  9. its summary is that of its trials                   class aggregate
 10. its energy figures follow from their inputs         class energy
 11. its blobs have their digests                        class blob
 12. its joules are those of its readings                class energy
 13. its journal tells the same trials                   class aggregate
 14. nothing of it is simulated                          class policy; without a policy noted
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from appliance import schemas
from appliance.audit import baselines, blobs, energy, outcomes, plans, readings
from appliance.errors import InputRefused
from appliance.records.record import Record
from attest.checks import Check, Verified
from attest.errors import Refused


def record_checks(blob_folder: Path | None, allow_missing: bool, *, publishing: bool = False) -> Sequence[Check]:
    """`blob_folder` holds `sha256/<hex>`; None: there is none. `allow_missing`: a blob that is not there may stay
    unchecked. `publishing`: what no published record may hold is refused, and not only said."""
    opened = _Opened()

    def check(name: str, look: Callable[[Record], None], reason: str = "aggregate") -> Check:
        return Check(name, lambda verified: look(opened.record(verified)), reason)

    return (
        Check("the record fits its schema", opened.fits, "record"),
        check("it is no dry run", plans.no_dry_run, "record"),
        check("its plan has the digest it states", plans.digest_holds),
        check("its trials are those of the plan", plans.trials_are_planned),
        check("its stamps say what the plan says", plans.stamps_agree),
        check("limits and network in force are those asked for", plans.in_force_as_asked),
        check("its baselines bear out what was excluded", baselines.bear_out),
        check("every outcome follows from its grade", outcomes.follow_from_grades),
        check("its summary is that of its trials", plans.summary_recomputes),
        check("its energy figures follow from their inputs", energy.figures_follow, "energy"),
        check("its blobs have their digests", lambda record: blobs.hold(record, blob_folder, allow_missing), "blob"),
        check(
            "its joules are those of its readings",
            lambda record: readings.joules_follow(record, blob_folder, allow_missing),
            "energy",
        ),
        check(
            "its journal tells the same trials",
            lambda record: blobs.journal_agrees(record, blob_folder, allow_missing),
        ),
        check("nothing of it is simulated", lambda record: energy.nothing_simulated(record, publishing), "policy"),
    )


class _Opened:
    """The record as a model, read once for all checks."""

    def __init__(self) -> None:
        self._read: tuple[bytes, Record] | None = None

    def fits(self, verified: Verified) -> None:
        problem = schemas.first_problem("record-v1", verified.record)
        if problem:
            path, words = problem
            raise Refused("record", words, where=path, mend="appliance schema show record-v1")
        self.record(verified)

    def record(self, verified: Verified) -> Record:
        if self._read is None or self._read[0] is not verified.record_bytes:
            try:
                record = Record.from_canonical(verified.record_bytes, "")
            except InputRefused as error:
                raise Refused("record", error.message, where=(error.where or "").removeprefix(": ")) from error
            self._read = (verified.record_bytes, record)
        return self._read[1]
