"""When an upstream is asked again, and whose failure an answer is: pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from appliance.gateway.exchange import Headers

_AGAIN: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""What may be otherwise a moment later: 529 is Anthropic's `overloaded`, 409 a lock of OpenAI's."""
_REFUSED: Final[dict[int, str]] = {
    401: "the provider refused the key",
    402: "the provider wants to be paid first",
    403: "the provider refused the key",
    404: "the provider knows no such model or path",
}
_ACCOUNT: Final = re.compile(rb"API_KEY_INVALID|API key not valid|API key expired|credit balance is too low", re.I)
"""What two providers say of a key or an account with status 400, which elsewhere is the asker's mistake."""


@dataclass(frozen=True)
class RetryPolicy:
    tries: int = 6
    first_wait_seconds: float = 1.0
    """Doubled each time; from it to half of it less, at random, so that trials don't come back together."""
    longest_wait_seconds: float = 60.0
    """A `retry-after` beyond it ends the tries at once: an agent waits as well as we do."""


def wait_before_next(policy: RetryPolicy, made: int, status: int | None, headers: Headers, draw: float) -> float | None:
    """Seconds to wait after `made` tries, the last of which failed with `status` (None: no answer); None: no more.

    `draw` lies in [0, 1).
    """
    if made >= policy.tries:
        return None
    named = dict(headers)
    wish = named.get("x-should-retry", "").lower()
    if status is not None and (wish == "false" or (status not in _AGAIN and wish != "true")):
        return None
    asked = retry_after(headers)
    if asked is not None:
        return asked if asked <= policy.longest_wait_seconds else None
    backoff = min(policy.first_wait_seconds * 2.0 ** (made - 1), policy.longest_wait_seconds)
    return backoff * (1 - draw / 2)


def retry_after(headers: Headers, now: datetime | None = None) -> float | None:
    """Seconds, of `retry-after-ms` or of `retry-after` in either of its forms; None where neither can be read."""
    named = dict(headers)
    milliseconds, seconds = named.get("retry-after-ms", ""), named.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", milliseconds):
        return float(milliseconds) / 1000
    if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", seconds):
        return float(seconds)
    try:
        moment = parsedate_to_datetime(seconds)
    except (ValueError, IndexError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


@dataclass
class Proven:
    """What earlier answers of the model have shown to be right: what is refused after them is refused for what was
    asked. Of one trial, and of its run.
    """

    answered: bool = False


def providers_failure(status: int, head: bytes, trial: Proven, run: Proven) -> str | None:
    """Words where an answer is the provider's failure, or its account's, and not the asker's; `head` of its body.

    A key may be refused in the middle of a run, and hardly in the middle of a trial; a model does not go within a run.
    """
    if status in _AGAIN or status >= 500:
        return f"the provider answered {status}"
    if 300 <= status < 400:
        return f"the provider sends us elsewhere ({status})"
    if trial.answered or (status == 404 and run.answered):
        return None
    if status in _REFUSED:
        return f"{_REFUSED[status]} ({status})"
    if status == 400 and _ACCOUNT.search(head):
        return "the provider refused the key or the account (400)"
    return None
