"""The genuine instances of the corpus, and what they genuinely signed: made once a process, changed by nobody."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from appliance.audit.checks import record_checks
from appliance.audit.trust import agreement_check, claims_of
from appliance.files import store_blob
from appliance.records.record import Record
from attest import canonical, statement
from attest.checks import Check
from attest.predicate import Claims, LogReference, Predicate
from attest.signing import sign_record
from tests import record_builder
from tests.attest_corpus import Attested, Case, Exhibit
from tests.attest_forge import HEX, RECORD, Forge, claims, edited
from tests.measured_builder import Measured, measured
from tests.property.test_audit_mutations import genuine

_FRESH_SECONDS = 240
"""A certificate holds for ten minutes."""


class Workshop:
    def __init__(self, folder: Path):
        self.folder = folder
        self.own = Forge(folder / "own/local")
        self.stranger = Forge(folder / "stranger/local")
        self._made: dict[str, Exhibit] = {}
        self._holder, self._since = self.own.holder(), time.monotonic()
        for _ in range(6):  # so that proofs have hashes in them
            self.own.bundle()
            self.own.bundle(context=self.own.context_of_v1())
        self.earlier = self.held(self.own.bundle())
        """Another good bundle of the same signer about the same record, made before `good`."""
        self.good = self.held(sign_record(self.own.trust, RECORD, claims()))
        """A small record, its bundle and its root, as they should be: an entry in Rekor v2's form."""
        self.later = self.held(self.own.bundle())

    def made(self, case: Case) -> Exhibit:
        """The case's exhibit; signed once, however often it is judged."""
        if case.name not in self._made:
            self._made[case.name] = case.make(self)
        return self._made[case.name]

    def bundle(self, payload: bytes, **more: Any) -> bytes:
        """Signed by a key whose certificate was issued some minutes ago at the most."""
        if time.monotonic() - self._since > _FRESH_SECONDS:
            self._holder, self._since = self.own.holder(), time.monotonic()
        return self.own.bundle(payload, holder=self._holder, **more)

    def shelf(self, name: str) -> Path:
        """An empty folder of blobs."""
        return Path(tempfile.mkdtemp(prefix=name, dir=self.folder))

    # -------------------------------------------------------------------------------------- a bundle, record aside

    @cached_property
    def promised(self) -> Attested:
        """The same from a log of Rekor v1's form, whose promise is the only clock."""
        return self.held(self.own.bundle(context=self.own.context_of_v1(stamped=False)))

    @cached_property
    def stamped(self) -> Attested:
        """From a log of Rekor v1's form, with a timestamp as well: what the public instance gives today."""
        return self.held(self.own.bundle(context=self.own.context_of_v1()))

    def held(self, bundle: bytes, record: bytes = RECORD, **changes: Any) -> Attested:
        """Held to the genuine root, name and issuer."""
        return Attested(record, bundle, self.own.trust.root.content, self.own.identity).but(**changes)

    def edited(self, change: Callable[[dict[str, Any]], Any], of: Attested | None = None) -> Attested:
        exhibit = of or self.good
        return exhibit.but(bundle=edited(exhibit.bundle, change))

    def parsed(self, of: Attested) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(of.bundle)
        return found

    # ---------------------------------------------------------------------------------------------- whole records

    @cached_property
    def record(self) -> Record:
        return genuine()

    @cached_property
    def blobs(self) -> Path:
        folder = self.shelf("blobs")
        for digest, content in record_builder.blobs(self.record).items():
            store_blob(folder, content, digest)
        return folder

    @cached_property
    def measured(self) -> Measured:
        return measured()

    @cached_property
    def measured_blobs(self) -> Path:
        folder = self.shelf("measured")
        for digest, content in self.measured.blobs.items():
            store_blob(folder, content, digest)
        return folder

    def signed_again(self, value: Any, blobs: Path, **more: Any) -> Attested:
        """The record that this JSON value is, signed with the genuine key by a tool that states what it reads in it."""
        content = value if isinstance(value, bytes) else canonical.dumps(value)
        return self.signed(content, stated(content), blobs, **more)

    def signed(
        self,
        content: bytes,
        claimed: Claims,
        blobs: Path | None,
        *,
        more_checks: Sequence[Check] = (),
        allow_missing: bool = False,
    ) -> Attested:
        predicate = Predicate.of(claimed, self.own.identity, LogReference(size=0, root=HEX), "local")
        bundle = self.bundle(statement.build("record.json", content, predicate.json_value()))
        checks = [*record_checks(blobs, allow_missing), agreement_check(), *more_checks]
        return self.held(bundle, content, checks=tuple(checks))


def stated(content: bytes) -> Claims:
    """What a cheat's tool would state of these bytes; of the genuine record where they are no record at all."""
    try:
        return claims_of(Record.model_validate_json(content))
    except Exception:  # noqa: BLE001  the cheat's tool states something, whatever it is given
        return claims_of(genuine())


@cache
def workshop() -> Workshop:
    folder = Path(tempfile.mkdtemp(prefix="attest-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Workshop(folder)
