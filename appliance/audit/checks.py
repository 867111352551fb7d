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

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance import schemas
from appliance.audit import baselines, blobs, cassettes, energy, outcomes, plans, readings
from appliance.audit.opened import Opened
from appliance.records.record import Record
from attest import canonical
from attest.checks import Check, Verified
from attest.errors import Refused


def record_checks(
    blob_folder: Path | None, allow_missing: bool, *, publishing: bool = False, opened: Opened | None = None
) -> Sequence[Check]:
    """`blob_folder` holds `sha256/<hex>`; None: there is none. `allow_missing`: a blob that is not there may stay
    unchecked. `publishing`: what no published record may hold is refused, and not only said. `opened`: shared with
    other checks of the same list."""
    opened = opened or Opened()

    def check(name: str, look: Callable[[Record], None], reason: str = "aggregate") -> Check:
        return Check(name, lambda verified: look(opened.record(verified)), reason)

    return (
        Check("the record fits its schema", lambda verified: _fits(verified, opened), "record"),
        check("it is no dry run", plans.no_dry_run, "record"),
        Check(
            "its plan has the digest it states",
            lambda verified: plans.digest_holds(opened.record(verified), str(_parts(verified)["plan"])),
            "aggregate",
        ),
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
            "its tokens and dollars are those of its cassettes",
            lambda record: cassettes.bear_out(record, blob_folder, allow_missing),
        ),
        Check(
            "its journal tells the same trials",
            lambda verified: blobs.journal_agrees(
                opened.record(verified), blob_folder, allow_missing, parts=_parts(verified)
            ),
            "aggregate",
        ),
        check("nothing of it is simulated", lambda record: energy.nothing_simulated(record, publishing), "policy"),
    )


def _parts(verified: Verified) -> Mapping[str, str | tuple[str, ...]]:
    """Also of a record that nobody signed, of which only what it parses to is at hand."""
    return verified.parts or canonical.parts_of(verified.record)


def _fits(verified: Verified, opened: Opened) -> None:
    problem = schemas.first_problem("record-v1", verified.record)
    if problem:
        path, words = problem
        mend = "appliance schema show record-v1"
        opened.refuse(verified, Refused("record", words, where=path, mend=mend, word="schema_mismatch"))
    opened.record(verified)
