"""The other end of `attest.trust.child`: every answer is waited for within a bound, and whoever exceeds it is named."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO, Any, Final, cast

from attest.bundle import MAX_BUNDLE_BYTES
from attest.errors import REASON_CLASSES, Refused
from attest.trust.config import RekorVersion, TrustConfig
from attest.trust.services import PERSON_SECONDS, SERVICES, Role, printable
from attest.trust.tokens import TokenSource

SIGN_SECONDS: Final = 60.0
"""How long the services may take for a certificate, and again for each signature."""
_MOST_ANSWER_BYTES: Final = 2 * MAX_BUNDLE_BYTES


@dataclass(frozen=True, slots=True)
class Issued:
    """What the certificate says."""

    identity: str
    issuer: str
    until: datetime


class Child:
    """A process of ours that asks strangers. It ends with this object, with an answer that is late, or with us."""

    def __init__(self, seconds: float, *, terminal: bool = False):
        """`terminal`: it shares ours, for a person has to read and type."""
        self._seconds = seconds
        self._terminal = terminal
        self._buffer = b""
        self._errors: IO[bytes] | None = None if terminal else tempfile.TemporaryFile()  # noqa: SIM115  closed by _end
        # -P: what lies in the working folder is not ours to run.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "attest.trust.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            process_group=None if terminal else 0,
        )
        self.close = weakref.finalize(self, _end, self._process, self._errors, not terminal)

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Raises the Refused that it answers with, or one that names the service which has not answered."""
        stream = cast(IO[bytes], self._process.stdin)
        with suppress(BrokenPipeError):  # it has ended: reading tells
            stream.write(json.dumps({**question, "seconds": self._seconds}).encode() + b"\n")
            stream.flush()
        asking: tuple[Role, str] | None = None
        deadline = time.monotonic() + self._seconds
        while True:
            answer = self._line(deadline, asking)
            if "asking" in answer:
                asking = (answer["asking"], answer["url"])
                if asking[0] == "person":
                    deadline += PERSON_SECONDS
                continue
            refused = answer.get("refused")
            if refused is not None:
                self.close()
                reason = refused["reason"] if refused["reason"] in REASON_CLASSES else "internal"
                raise Refused(reason, refused["message"], where=refused["where"], mend=refused["mend"])
            return answer

    def _line(self, deadline: float, asking: tuple[Role, str] | None) -> dict[str, Any]:
        descriptor = cast(IO[bytes], self._process.stdout).fileno()
        while b"\n" not in self._buffer:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([descriptor], [], [], wait)[0]:
                raise self._late(asking)
            read = os.read(descriptor, 65536)
            if not read or len(self._buffer) > _MOST_ANSWER_BYTES:
                raise self._broken(asking)
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\n")
        value: dict[str, Any] = json.loads(line)
        return value

    def _late(self, asking: tuple[Role, str] | None) -> Refused:
        self.close()
        if asking is None:
            return Refused("internal", f"the signing process has not begun within {self._seconds:g} s")
        service = SERVICES[asking[0]]
        seconds = self._seconds + (PERSON_SECONDS if asking[0] == "person" else 0)
        return Refused(
            service.reason,
            f"{service.words} has not answered within {seconds:g} s",
            where=asking[1],
            mend="try again once it answers, or give it longer with --sign-timeout",
        )

    def _broken(self, asking: tuple[Role, str] | None) -> Refused:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        said = ""
        if self._errors is not None:
            self._errors.seek(0)
            said = self._errors.read(65536).decode("utf-8", "replace").strip().rpartition("\n")[2]
        where = asking[1] if asking else None
        status = self._process.returncode
        self.close()
        return Refused("internal", f"the signing process ended with status {status}: {printable(said)}", where=where)


class Session:
    """A certificate that was issued to a key in a process of ours, and signatures by it."""

    def __init__(self, config: TrustConfig, where: str, token: TokenSource, seconds: float, rekor: RekorVersion | None):
        """Raises Refused with the class of the service that failed."""
        raw = token.read()
        self._child = Child(seconds, terminal=token.kind == "interactive")
        answer = self._child.ask(
            {
                "open": {
                    "config": config.content.decode(),
                    "where": where,
                    "rekorVersion": rekor,
                    "token": raw,
                    "source": token.kind,
                }
            }
        )["signer"]
        until = datetime.fromisoformat(answer["until"]).astimezone(UTC)
        self.issued = Issued(answer["identity"], answer["issuer"], until)

    def sign(self, statement: bytes) -> bytes:
        bundle: str = self._child.ask({"sign": base64.b64encode(statement).decode()})["bundle"]
        return bundle.encode()

    def close(self) -> None:
        self._child.close()


def _end(process: subprocess.Popen[bytes], errors: IO[bytes] | None, group: bool) -> None:
    """Killed with whatever it started: it has nothing to tidy, its key was never on a disk."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
