"""The process that asks a deployment's services, so that whoever started it can stop waiting: `python -P -m
attest.trust.child`.

Fulcio's and Rekor's clients have no timeout. One JSON document a line: questions on standard input, answers on standard
output; before each service is asked, a line says which. The signing key is made here and ends with the process.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from attest.errors import Refused
from attest.trust.services import PERSON_SECONDS, Role
from attest.trust.tokens import HeldTokens

if TYPE_CHECKING:
    from attest.trust.asked import Asked

_GRACE_SECONDS: Final = 5
"""Whoever asked stops us before; this is for when they were killed."""


def main() -> None:
    questions, answers = _streams()
    tokens = HeldTokens()
    # Whoever started us reads the last line of what we die with.
    sys.excepthook = lambda kind, error, _: _say_last(tokens.struck(f"{kind.__name__}: {error}"))
    kept = _Kept(_teller(answers), tokens.hold)
    for line in questions:
        question = json.loads(line)
        signal.alarm(int(question["seconds"]) + _GRACE_SECONDS)
        try:
            answer = kept.answer(question)
        except Refused as refused:
            words = {"message": refused.message, "where": refused.where, "mend": refused.mend}
            said = {key: text and tokens.struck(text) for key, text in words.items()}
            answer = {"refused": {"reason": refused.reason, **said}}
        signal.alarm(0)
        _say(answers, answer)


class _Kept:
    """What stays between two questions: the signer, with its key and its certificate."""

    def __init__(self, tell: Callable[[Role, str], None], hold: Callable[[str], None]):
        self._tell = tell
        self._hold = hold
        self._asked: Asked | None = None

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if "open" in question:
            from attest.trust.asked import Asked

            wanted = question["open"]
            self._asked = Asked(
                wanted["config"].encode(),
                where=wanted["where"],
                rekor_version=wanted["rekorVersion"],
                token=wanted["token"],
                source=wanted["source"],
                tell=self._tell,
                hold=self._hold,
            )
            return {"signer": self._asked.signer}
        if "sign" in question:
            if self._asked is None:
                raise Refused("internal", "asked to sign before there is a certificate")
            return {"bundle": self._asked.sign(base64.b64decode(question["sign"])).decode()}
        from attest.trust.mirror import fetch

        wanted = question["mirror"]
        bootstrap = base64.b64decode(wanted["bootstrap"]) if wanted["bootstrap"] else None
        found = fetch(wanted["url"], Path(wanted["folder"]), bootstrap, self._tell)
        return {name: base64.b64encode(content).decode() for name, content in found.items()}


def _streams() -> tuple[IO[bytes], IO[bytes]]:
    """Ours alone: a browser that prints, a library that asks for a code, must not come between the lines."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        terminal = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(terminal, 0)
    os.close(terminal)
    return questions, answers


def _teller(answers: IO[bytes]) -> Callable[[Role, str], None]:
    def tell(role: Role, url: str) -> None:
        if role == "person":
            signal.alarm(signal.alarm(0) + PERSON_SECONDS)
        _say(answers, {"asking": role, "url": url})

    return tell


def _say(answers: IO[bytes], value: dict[str, Any]) -> None:
    try:
        answers.write(json.dumps(value).encode() + b"\n")
        answers.flush()
    except BrokenPipeError:
        sys.exit(0)  # nobody waits any more


def _say_last(words: str) -> None:
    sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    main()
