"""What the signer says of a record beside its digest: a closed schema, so nothing unread is ever signed."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints

from attest import canonical
from attest.closed import Closed, read_closed

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Hex = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
DigestSet = Annotated[dict[Literal["sha256", "gitCommit"], Hex], Field(min_length=1)]
"""In-toto's, of the two kinds that a record's dependencies have."""
MOST_CHARACTERS: Final = 4096
Text = Annotated[str, StringConstraints(min_length=1, max_length=MOST_CHARACTERS)]
Moment = Annotated[
    str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?Z$")
]
"""Of RFC 3339. (In these patterns `\\d` is any alphabet's digit.)"""


class Sha256Digest(Closed):
    sha256: Sha256


class SchemaReference(Closed):
    uri: Text
    digest: Sha256Digest


class SuiteReference(Closed):
    uri: Text
    digest: Sha256Digest
    version: Text


class Dependency(Closed):
    """An image, a source, a model's manifest or a data set that the result rests on."""

    name: Text
    digest: DigestSet


class Run(Closed):
    invocation_id: Text
    started_on: Moment
    finished_on: Moment


class RunnerClaim(Closed):
    """The program that ran the trials."""

    version: Text
    digest: Sha256Digest


class Runner(RunnerClaim):
    id: Text
    """Equal to the certificate's name."""


class LogReference(Closed):
    """The signer's last checkpoint before this one."""

    size: int = Field(ge=0)
    root: Sha256


class Tpm(Closed):
    quote: Text
    sig: Text
    ak_pub: Text


class Claims(Closed):
    """What the caller of `sign_record` says; the signer adds its own name, log and assurance."""

    schema_: SchemaReference = Field(alias="schema")
    suite: SuiteReference
    runner: RunnerClaim
    resolved_dependencies: tuple[Dependency, ...]
    run: Run
    challenge: Sha256 | None
    supersedes: Sha256 | None
    """Digest of the record that this one replaces."""


class Predicate(Closed):
    schema_: SchemaReference = Field(alias="schema")
    suite: SuiteReference
    runner: Runner
    resolved_dependencies: tuple[Dependency, ...]
    run: Run
    challenge: Sha256 | None
    supersedes: Sha256 | None
    log: LogReference | None
    """None where the signer keeps no log of its own."""
    assurance: Literal["local", "private", "public"]
    """The signer's own word; a verification states the level of the root that it was given."""
    tpm: Tpm | None = None

    @classmethod
    def of(cls, claims: Claims, signer: str, log: LogReference | None, assurance: str) -> Self:
        value = claims.model_dump(mode="json", by_alias=True, exclude_none=False)
        value["runner"] = {**value["runner"], "id": signer}
        return cls.parse(
            {**value, "log": log.model_dump(by_alias=True) if log else None, "assurance": assurance, "tpm": None}
        )

    @classmethod
    def parse(cls, value: canonical.Json) -> Self:
        """Raises Refused (statement) with the JSON path of the first problem."""
        return read_closed(cls, value, "payload $.predicate")

    def json_value(self) -> dict[str, Any]:
        value: dict[str, Any] = self.model_dump(mode="json", by_alias=True)
        if self.tpm is None:
            del value["tpm"]
        return value
