"""Talking to a TPM: four of its commands, in its own encoding, over its device or an emulator's socket.

TPM 2.0 Library, part 1 (18: the form of commands), part 3 (24.1 CreatePrimary, 18.4 Quote, 20.2 Sign, 28.4
FlushContext). Standard library only: each key has no password, so no session is ever encrypted or bound.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
from collections.abc import Iterator
from typing import Final

from attest.errors import Refused

OWNER: Final = 0x40000001
ENDORSEMENT: Final = 0x4000000B
_NO_SESSIONS: Final = 0x8001
_SESSIONS: Final = 0x8002
_NO_PASSWORD: Final = bytes.fromhex("00000009400000090000000000")
_NULL: Final = bytes.fromhex("0010")
_HEAD: Final = 10
_MOST_BYTES: Final = 4096
"""Of an answer; the TPM's own bound (TPM2_MAX_RESPONSE_SIZE)."""
_BUSY: Final = frozenset({0x922, 0x908, 0x90A})
"""TPM_RC_RETRY, TPM_RC_YIELDED, TPM_RC_TESTING: it is at something else."""
_TRIES: Final = 50
_BETWEEN_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 60.0
"""A slow TPM takes seconds to make a key."""
_FORMS: Final = "device:/dev/tpmrm0, or swtpm:path=SOCKET, or swtpm:host=HOST,port=PORT"


class Tpm2:
    """A connection to one TPM, for a few commands."""

    def __init__(self, fd: int, where: str):
        self._fd = fd
        self._where = where

    @contextlib.contextmanager
    def primary(self, hierarchy: int, template: bytes) -> Iterator[tuple[int, bytes]]:
        """A primary key while it is needed: its handle, and its TPMT_PUBLIC."""
        sensitive = sized(sized(b"") + sized(b""))
        asked = sensitive + sized(template) + sized(b"") + bytes(4)
        answer = self._command(0x131, (hierarchy,), asked, handles=1)
        handle = int.from_bytes(answer[:4], "big")
        public = _sized_at(answer, 4 + 4)
        try:
            yield handle, public
        finally:
            # Without a resource manager a TPM has three places for keys.
            self._command(0x165, (), handle.to_bytes(4, "big"), sessions=False)

    def quote(self, key: int, qualifying: bytes, pcrs: bytes) -> tuple[bytes, bytes]:
        """TPMS_ATTEST and TPMT_SIGNATURE; `pcrs` as a TPML_PCR_SELECTION."""
        answer = self._command(0x158, (key,), sized(qualifying) + _NULL + pcrs)
        size = int.from_bytes(answer[:4], "big")
        quoted = _sized_at(answer, 4)
        return quoted, answer[4 + 2 + len(quoted) : 4 + size]

    def sign(self, key: int, digest: bytes) -> bytes:
        """TPMT_SIGNATURE, ECDSA with SHA-256."""
        # An unrestricted key asks for no proof that the TPM made the digest itself: an empty ticket.
        ticket = bytes.fromhex("802440000007") + sized(b"")
        answer = self._command(0x15D, (key,), sized(digest) + bytes.fromhex("0018000b") + ticket)
        return answer[4 : 4 + int.from_bytes(answer[:4], "big")]

    def _command(
        self, code: int, handles_in: tuple[int, ...], parameters: bytes, *, handles: int = 0, sessions: bool = True
    ) -> bytes:
        """What comes after the answer's head. Raises Refused (trust_root)."""
        body = b"".join(handle.to_bytes(4, "big") for handle in handles_in)
        body += (_NO_PASSWORD if sessions else b"") + parameters
        tag = _SESSIONS if sessions else _NO_SESSIONS
        head = tag.to_bytes(2, "big") + (_HEAD + len(body)).to_bytes(4, "big") + code.to_bytes(4, "big")
        for _ in range(_TRIES):
            answer = self._exchange(head + body)
            result = int.from_bytes(answer[6:10], "big")
            if result not in _BUSY:
                break
            select.select((), (), (), _BETWEEN_SECONDS)
        if result:
            raise Refused("trust_root", f"the TPM refuses command {code:#x}: {result:#06x}", where=self._where)
        least = 4 * handles + (4 if sessions else 0)
        if len(answer) < _HEAD + least:
            raise Refused("trust_root", "the TPM's answer ends early", where=self._where)
        return answer[_HEAD:]

    def _exchange(self, command: bytes) -> bytes:
        try:
            os.write(self._fd, command)
            answer = self._read()
            while len(answer) < _HEAD or len(answer) < int.from_bytes(answer[2:6], "big"):
                answer += self._read()
        except OSError as error:
            raise Refused("trust_root", f"the TPM: {error.strerror or error}", where=self._where) from error
        if len(answer) > _MOST_BYTES:
            raise Refused("trust_root", "the TPM's answer is longer than any", where=self._where)
        return answer

    def _read(self) -> bytes:
        readable, _, _ = select.select((self._fd,), (), (), _ANSWER_SECONDS)
        piece = os.read(self._fd, _MOST_BYTES) if readable else b""
        if not piece:
            raise OSError("it went away" if readable else f"no answer within {_ANSWER_SECONDS:.0f} s")
        return piece


@contextlib.contextmanager
def connected(tcti: str) -> Iterator[Tpm2]:
    """The TPM at `tcti`, as tpm2-tss writes it. Raises Refused (usage, trust_root)."""
    kind, _, rest = tcti.partition(":")
    try:
        with contextlib.ExitStack() as held:
            if kind == "device" and rest:
                fd = _device(rest)
                held.callback(os.close, fd)
            elif kind == "swtpm" and rest:
                fd = held.enter_context(_emulator(rest)).fileno()
            else:
                raise Refused("usage", "names no TPM", where=f"--tpm {tcti}", mend=_FORMS)
            yield Tpm2(fd, tcti)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or str(error)
        raise Refused("trust_root", f"no TPM answers: {words}", where=f"--tpm {tcti}", mend=_FORMS) from error


def _device(path: str) -> int:
    if not stat.S_ISCHR(os.stat(path).st_mode):  # noqa: PTH116
        raise OSError("not a device")
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def _emulator(words: str) -> socket.socket:
    said = dict(pair.split("=", 1) for pair in words.split(","))
    if set(said) == {"path"}:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(said["path"])
        except OSError:
            connection.close()
            raise
        return connection
    if set(said) == {"host", "port"}:
        return socket.create_connection((said["host"], int(said["port"])), _ANSWER_SECONDS)
    raise ValueError("it is at a path, or at a host and a port")


def sized(content: bytes) -> bytes:
    """A TPM2B: its length, and it."""
    return len(content).to_bytes(2, "big") + content


def _sized_at(content: bytes, at: int) -> bytes:
    size = int.from_bytes(content[at : at + 2], "big")
    return content[at + 2 : at + 2 + size]
