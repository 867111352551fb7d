"""Refusals and the exit statuses that they end with (docs/design: whose move it is).

A refusal says one thing to a person: what is wrong, where, and the one act that mends it. Anything else that is
raised is a bug of ours: it keeps its traceback and ends with status 1.
"""

from __future__ import annotations

from typing import ClassVar


class Refusal(Exception):
    """Base of everything that we refuse on purpose; printed as one line, `place: message (mend)`."""

    status: ClassVar[int] = 1

    def __init__(self, message: str, *, where: str | None = None, mend: str | None = None, reason: str | None = None):
        """`where`: a file with key, line or JSON path; `mend`: one command or act; `reason`: a word for `--json`."""
        super().__init__(message)
        self.message = message
        self.where = where
        self.mend = mend
        self.reason = reason

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        mend = f" ({self.mend})" if self.mend else ""
        return f"{place}{self.message}{mend}"


class UsageRefused(Refusal):
    """The command line asked for something that does not exist or does not fit together."""

    status = 2


class InputRefused(Refusal):
    """A file that we were given is not what it should be."""

    status = 3


class HostRefused(Refusal):
    """This machine lacks something: an engine, a permission, disk, an image."""

    status = 4


class TrialsIncomplete(Refusal):
    """Trials errored or were excluded; the record is written all the same."""

    status = 5


class MeterRefused(Refusal):
    """Energy cannot be stated as it was asked for."""

    status = 6


class AttestationRefused(Refusal):
    """A signature, a bundle or a record that does not hold; `reason` is the class word of formats 6."""

    status = 7


class NotReproduced(Refusal):
    """The run was repeated and did not hold, or cannot be compared."""

    status = 8
