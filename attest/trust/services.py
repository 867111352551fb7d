"""The services of a deployment as one sees them from outside: what each is called, and the class of its failures."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from attest.errors import Refused

if TYPE_CHECKING:
    import requests

Role = Literal["oidc", "person", "fulcio", "tsa", "rekor", "tuf"]


@dataclass(frozen=True, slots=True)
class Service:
    words: str
    reason: str
    """Class of the refusal where it fails: that of the check which its answer would have to pass."""


SERVICES: Final[dict[Role, Service]] = {
    "oidc": Service("the identity provider (OIDC)", "identity"),
    "person": Service("the person at the browser", "identity"),
    "fulcio": Service("the certificate authority (Fulcio)", "certificate"),
    "tsa": Service("the timestamp authority (TSA)", "time"),
    "rekor": Service("the log (Rekor)", "log_entry"),
    "tuf": Service("the mirror of the trusted root (TUF)", "trust_root"),
}
PERSON_SECONDS: Final = 300
"""What somebody at a browser is given on top of what the services may take."""
_MOST_MEMORY_BYTES: Final = 1024**3
LATER: Final = "try again once it answers as it should"


@contextmanager
def asking(role: Role, url: str, tell: Callable[[Role, str], None]) -> Iterator[None]:
    """Tells whose turn it is, and turns whatever the client library raises into a refusal that names the service."""
    tell(role, url)
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        service = SERVICES[role]
        raise Refused(service.reason, f"{service.words} {_said(error)}", where=url, mend=LATER) from error


def _said(error: BaseException) -> str:
    """The libraries wrap what happened in errors of their own, some of them empty; the first that says it, says it."""
    return next(_words(tuple(_chain(error)), type(error).__name__))


def _words(chain: tuple[BaseException, ...], kind: str) -> Iterator[str]:
    """From the most to the least certain: of urllib3's, a refused connection is a timeout, too."""
    import requests
    import urllib3

    if any(isinstance(one, MemoryError) for one in chain):
        yield f"answered without end: more memory than {_MOST_MEMORY_BYTES // 1024**2} MiB"
    for one in chain:
        if isinstance(one, requests.HTTPError) and one.response is not None:
            body, phrase = printable(one.response.text), printable(one.response.reason or "", 80)
            yield f"answered {one.response.status_code} {phrase}".rstrip() + (f": {body}" if body else "")
        if isinstance(one, requests.TooManyRedirects) and one.response is not None:
            elsewhere = printable(one.response.headers.get("Location", ""))
            yield f"answered {one.response.status_code}: it sends to {elsewhere}, where nothing of ours goes"
    if any(isinstance(one, requests.JSONDecodeError) for one in chain):
        yield "answered with what is no JSON"
    for one in chain:
        if isinstance(one, OSError) and one.errno and not isinstance(one, requests.RequestException):
            yield f"cannot be reached: {one.strerror}"
    if any(isinstance(one, (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError)) for one in chain):
        yield "has not answered"
    for one in chain:
        if isinstance(one, requests.ConnectionError):
            yield f"cannot be reached: {printable(str(one))}"
    said = next((text for one in chain if (text := printable(str(one)))), "")
    yield f"answered with what does not hold: {kind}{f': {said}' if said else ''}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, its reasons, and the errors that are among the arguments of these (urllib3 keeps its own there)."""
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < 32:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        reasons = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting.extend(found for found in reasons if isinstance(found, BaseException))


def bound_memory() -> None:
    """Of this process: a service may answer without end, faster than its time is up."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))


def followed_nowhere(session: requests.Session) -> None:
    """A config says where tokens and statements go, over what; an answer does not."""
    session.max_redirects = 0


def printable(text: str, most: int = 200) -> str:
    """One line that cannot steer a terminal: a stranger's server wrote it."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * most]).split())[:most]
