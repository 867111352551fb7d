"""What a signer says of a record: read back as it was written, for whatever it may say."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from appliance import schemas
from attest import canonical
from attest.errors import Refused
from attest.predicate import Claims, LogReference, Predicate
from tests.wire_strategies import wire_values

# Several suites share a machine: how long an example takes says nothing here.
BUSY = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@BUSY
@given(value=wire_values(Predicate))
def test_a_predicate_is_read_back_as_it_was_written_and_fits_its_schema(value: Predicate) -> None:
    """By way of its bytes, as in a statement; what the model takes, its published schema takes (issue 3, Bad input)."""
    content = canonical.dumps(value.json_value())
    again = Predicate.parse(canonical.loads_canonical(content))
    assert again == value
    assert canonical.dumps(again.json_value()) == content
    assert schemas.first_problem("benchmark-result-v1", canonical.loads(content)) is None


@BUSY
@given(
    claims=wire_values(Claims),
    signer=_TEXT,
    log=st.none() | wire_values(LogReference),
    assurance=st.sampled_from(("local", "private", "public")),
)
def test_every_claim_stands_in_the_predicate_as_it_was_made(
    claims: Claims, signer: str, log: LogReference | None, assurance: str
) -> None:
    """The signer adds its name, its log and its assurance, and changes nothing that it was told."""
    made = Predicate.of(claims, signer, log, assurance)
    assert (made.runner.id, made.log, made.assurance, made.tpm) == (signer, log, assurance, None)
    stated = made.model_dump(exclude={"log", "assurance", "tpm"})
    del stated["runner"]["id"]
    assert stated == claims.model_dump()


@BUSY
@given(value=wire_values(Predicate), data=st.data())
def test_a_predicate_with_a_key_more_or_less_is_refused_by_its_path(value: Predicate, data: st.DataObject) -> None:
    """A closed schema: what a program does not read, nobody signs, and nothing that is needed may be left out."""
    document = value.json_value()
    key = data.draw(st.sampled_from(sorted(document.keys() - {"tpm"})))
    with pytest.raises(Refused) as more:
        Predicate.parse({**document, "unheard": document[key]})
    assert more.value.where == "payload $.predicate.unheard"
    del document[key]
    with pytest.raises(Refused) as less:
        Predicate.parse(document)
    assert less.value.where == f"payload $.predicate.{key}"
