"""The corpus in its order: families as the page lists them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tests.attest_corpus import Case, forged, measured, proofs, received, records, rekor_v1, roots, shapes, statements

FAMILIES: dict[str, Callable[[], list[Case]]] = {
    "Bundles that were edited: form and encodings": shapes.cases,
    "Bundles that were edited: proofs, clocks, parts of another": proofs.cases,
    "Names, certificates, clocks and logs": forged.cases,
    "Roots, and what lies around a timestamp's signature": roots.cases,
    "Entries of Rekor v1's form": rekor_v1.cases,
    "Genuine signatures over something else": statements.cases,
    "Records signed again with the genuine key": records.cases,
    "Counted joules signed again with the genuine key": measured.cases,
    "What a receiver meets": received.cases,
}


@cache
def families() -> dict[str, tuple[Case, ...]]:
    return {title: tuple(cases()) for title, cases in FAMILIES.items()}


def corpus() -> tuple[Case, ...]:
    return tuple(case for cases in families().values() for case in cases)
