"""SLSA provenance (version 1) of a record: a twin of its statement, for programs that know no other predicate.

It says how the record's file came to be, as SLSA means it: a run is the build, the record its one output. What counts
is the record's own statement; the twin repeats the same claims, and `appliance` takes nothing from it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import Field, StringConstraints

from attest import statement
from attest.canonical import Json
from attest.closed import Closed, read_closed
from attest.predicate import Claims, DigestSet, Moment, Text
from attest.verification import SignedStatement

BUILD_TYPE: Final = f"{statement.NAMESPACE}benchmark-run/v1"
"""docs/publishing.md says what its parameters are."""
_PREDICATE: Final = "payload $.predicate"


class Resource(Closed):
    """in-toto's resource descriptor, as far as we fill it."""

    name: Text
    digest: DigestSet
    uri: Text | None = None


class Asked(Closed):
    """What the person who started the run chose."""

    suite: Resource
    suite_version: Text
    solver: Text
    solver_version: Text | None = None
    model: Text
    """`none` where no model answered."""
    plan: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """The plan's digest: equal digests are the same experiment."""
    challenge: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class Definition(Closed):
    build_type: Text
    external_parameters: Asked
    resolved_dependencies: tuple[Resource, ...]


class Builder(Closed):
    id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*:.{1,4000}$")]
    """The signer's name as a URI: whoever holds that name vouches for the run."""
    version: dict[Text, Text]


class Metadata(Closed):
    invocation_id: Text
    started_on: Moment
    finished_on: Moment


class Details(Closed):
    builder: Builder
    metadata: Metadata
    byproducts: Annotated[tuple[Resource, ...], Field(max_length=16)] = ()


class Provenance(Closed):
    """The predicate."""

    build_definition: Definition
    run_details: Details

    @classmethod
    def of(cls, claims: Claims, signer: str, asked: Asked, byproducts: tuple[Resource, ...] = ()) -> Self:
        """`signer`: the name in the certificate; an address becomes a `mailto:` URI."""
        dependencies = tuple(Resource(name=one.name, digest=one.digest) for one in claims.resolved_dependencies)
        harness = Resource(name="harness", digest={"sha256": claims.runner.digest.sha256})
        return cls(
            build_definition=Definition(
                build_type=BUILD_TYPE,
                external_parameters=asked,
                resolved_dependencies=(harness, *dependencies),
            ),
            run_details=Details(
                builder=Builder(
                    id=signer if ":" in signer else f"mailto:{signer}",
                    version={"bench-appliance": claims.runner.version},
                ),
                metadata=Metadata(
                    invocation_id=claims.run.invocation_id,
                    started_on=claims.run.started_on,
                    finished_on=claims.run.finished_on,
                ),
                byproducts=byproducts,
            ),
        )

    def json_value(self) -> dict[str, Json]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return value


def build(provenance: Provenance, record_name: str, record_bytes: bytes) -> bytes:
    """The statement's canonical bytes, for `signing.sign_statement(..., statement.PROVENANCE_TYPE)`."""
    return statement.build(record_name, record_bytes, provenance.json_value(), statement.PROVENANCE_TYPE)


def read(signed: SignedStatement, record_bytes: bytes) -> Provenance:
    """Of this record. Raises Refused (predicate_type, subject, statement)."""
    statement.check_predicate_type(signed.statement, statement.PROVENANCE_TYPE)
    statement.check_subject(signed.statement, record_bytes)
    return read_closed(Provenance, signed.statement.predicate, _PREDICATE)
