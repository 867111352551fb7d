"""docs/engine.md says what the contract suite says."""

from __future__ import annotations

from tests.contract.table import DOCUMENT, PODMAN_LACKS, document_with, table, truths


def test_the_table_in_the_document_is_the_suites() -> None:
    """`python -m tests.contract.table` writes it."""
    text = DOCUMENT.read_text()
    assert document_with(table(), text) == text


def test_exceptions_are_of_tests_that_exist() -> None:
    """An excuse for nothing would go unseen."""
    assert set(PODMAN_LACKS) <= {name for name, _ in truths()}
