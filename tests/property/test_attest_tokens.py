"""Tokens that a process holds, and words that others wrote."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attest.trust.tokens import HeldTokens


@given(st.text("abcdef.", min_size=1, max_size=60), st.text("abcdefg. ", max_size=200))
def test_no_words_share_as_much_as_sixteen_characters_with_a_token_that_is_held(token: str, text: str) -> None:
    """A shorter token is struck whole; what shares nothing with it is told as it was."""
    held = HeldTokens()
    held.hold(token)
    size = min(16, len(token))
    pieces = {token[at : at + size] for at in range(len(token) - size + 1)}
    said = held.struck(text)
    assert not [piece for piece in pieces if any(piece in part for part in said.split("[token]"))]
    if not [piece for piece in pieces if piece in text]:
        assert said == text
