"""python -m tests.attest_corpus: writes docs/hostile-corpus.md."""

from __future__ import annotations

from tests.attest_corpus import page
from tests.attest_corpus.workshop import workshop

page.PAGE.write_text(page.text(workshop()))
