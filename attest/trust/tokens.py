"""Where the identity token of a remote trust comes from. A token is a bearer secret: it is never printed or kept."""

from __future__ import annotations

import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from attest.errors import Refused

MAX_TOKEN_BYTES: Final = 64 * 1024
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+[.][A-Za-z0-9_-]+[.][A-Za-z0-9_-]+")
"""RFC 7515 3.1, the compact form, signed."""
_SURROUNDINGS: Final = ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "GOOGLE_SERVICE_ACCOUNT_NAME")
"""Variables by which `id.detect_credential` knows where it runs; Google's machines it knows by their firmware."""
_FIRMWARE: Final = Path("/sys/class/dmi/id/product_name")
WAYS: Final = (
    "--identity-token FILE, --token-env VAR or --oidc-interactive; in GitHub Actions `permissions: id-token: write`, "
    "in GitLab CI `id_tokens: SIGSTORE_ID_TOKEN: aud: sigstore`"
)


_SHARED_CHARS: Final = 16
"""As much of a token in words of a stranger is no coincidence."""


class HeldTokens:
    """Those that this process has: none of them leaves it in words, whoever wrote these."""

    def __init__(self) -> None:
        self._pieces: set[str] = set()

    def hold(self, token: str) -> None:
        last = max(len(token) - _SHARED_CHARS, 0)
        self._pieces |= {token[at : at + _SHARED_CHARS] for at in range(last + 1)} - {""}

    def struck(self, text: str) -> str:
        """Without any run of characters that a token has, too, whole or cut off."""
        covered = [False] * len(text)
        for size in {len(piece) for piece in self._pieces}:
            for at in range(len(text) - size + 1):
                if text[at : at + size] in self._pieces:
                    covered[at : at + size] = [True] * size
        shown = "".join("\0" if hidden else char for char, hidden in zip(text, covered, strict=True))
        return re.sub("\0+", "[token]", shown)


@dataclass(frozen=True, slots=True)
class TokenSource:
    """Read when it is needed, not before: tokens live for minutes, runs for hours."""

    kind: Literal["ambient", "file", "variable", "interactive"] = "ambient"
    """Ambient: what a CI system offers its own runs."""
    place: str = ""
    """The file (`-` for standard input), or the variable's name."""

    def read(self) -> str | None:
        """The token of a file or a variable; None where it has to be asked for. Raises Refused (identity)."""
        if self.kind == "file":
            token = _content_of(self.place)
        elif self.kind == "variable":
            token = os.environ.get(self.place, "")
        else:
            return None
        token = token.strip()
        if not token:
            raise Refused("identity", "no identity token there", where=self._where(), mend=WAYS)
        if len(token) > MAX_TOKEN_BYTES or not _JWT.fullmatch(token):
            raise Refused("identity", "not an identity token", where=self._where(), mend="a JWT, and nothing beside it")
        return token

    def refuse_unready(self) -> None:
        """For whoever signs at the end of hours of work: raises Refused (identity) where no token can come of it."""
        if self.kind == "file" and self.place != "-" and not Path(self.place).exists():
            raise Refused("identity", "no such file", where=self.place, mend=WAYS)
        if self.kind == "variable" and not os.environ.get(self.place):
            raise Refused("identity", "not set", where=self._where(), mend=WAYS)
        if self.kind == "ambient" and not any(os.environ.get(name) for name in _SURROUNDINGS) and not _on_google():
            raise Refused("identity", "no identity token: nothing here gives one by itself", mend=WAYS)

    def _where(self) -> str:
        return f"environment variable {self.place}" if self.kind == "variable" else self.place or "identity token"


def _content_of(place: str) -> str:
    if place == "-":
        content = sys.stdin.buffer.read(MAX_TOKEN_BYTES + 1)
    else:
        try:
            # A FIFO is taken too: `--identity-token <(gcloud ...)` is how a token stays out of the file system.
            with Path(place).open("rb") as stream:
                if stat.S_ISBLK(os.fstat(stream.fileno()).st_mode):
                    raise Refused("identity", "a device holds no token", where=place, mend=WAYS)
                content = stream.read(MAX_TOKEN_BYTES + 1)
        except OSError as error:
            raise Refused("identity", error.strerror or str(error), where=place, mend=WAYS) from error
    return content.decode("ascii", "replace")


def _on_google() -> bool:
    try:
        return _FIRMWARE.read_text().strip() in {"Google", "Google Compute Engine"}
    except OSError:
        return False
