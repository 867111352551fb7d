"""Trusted roots: pinned by digest, known by name in roots.toml. A bundle never says which one it is checked by."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast, get_args

from attest import canonical
from attest.errors import Refused
from attest.local.files import locked, read_bounded, write_atomically

Assurance = Literal["local", "private", "public"]
"""Whose word a root is: the signer's own, an organisation's, or the public-good instance's."""
ASSURANCES: Final[tuple[Assurance, ...]] = get_args(Assurance)
MEANING: Final[dict[Assurance, str]] = {
    "local": "self-asserted key, self-asserted clock, forkable log",
    "private": "a private deployment's key, clock and log",
    "public": "the public-good instance's key, clock and log",
}
MAX_ROOT_BYTES: Final = 1024 * 1024
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = {"name", "path", "sha256", "assurance"}


@dataclass(frozen=True)
class PinnedRoot:
    """A trusted root whose bytes are the ones that the verifier chose beforehand; another one cannot be built."""

    name: str
    content: bytes
    sha256: str
    assurance: Assurance

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise Refused("trust_root", "a pin is 64 lower-case hex digits of sha256", where=self.name)
        if len(self.content) > MAX_ROOT_BYTES:
            raise Refused("trust_root", f"over {MAX_ROOT_BYTES} bytes", where=self.name)
        found = hashlib.sha256(self.content).hexdigest()
        if found != self.sha256:
            raise Refused("trust_root", f"sha256 is {found}, pinned is {self.sha256}", where=self.name)
        if self.assurance not in ASSURANCES:
            raise Refused("trust_root", f"no such assurance level: {self.assurance}", where=self.name)

    @classmethod
    def read(
        cls, path: Path, sha256: str | None, *, name: str | None = None, assurance: Assurance = "local"
    ) -> PinnedRoot:
        """Raises Refused (trust_root) where the file is not the pinned one, or no pin is given.

        A root that nobody gave a level has the lowest.
        """
        if not sha256:
            raise Refused("trust_root", "not pinned", where=str(path), mend="give its digest with --root-sha256")
        try:
            content = read_bounded(path, MAX_ROOT_BYTES)
        except OSError as error:
            raise Refused("trust_root", error.strerror or str(error), where=str(path)) from error
        return cls(name or str(path), content, sha256, assurance)


def signer_of_local(root: PinnedRoot) -> str:
    """The only name that the embedded instance of this root gives: made of its CA key's fingerprint."""
    from cryptography import x509

    from attest.local.keys import key_id

    try:
        value = canonical.loads(root.content, max_bytes=MAX_ROOT_BYTES)
        der = base64.b64decode(value["certificateAuthorities"][0]["certChain"]["certificates"][0]["rawBytes"])
        key = x509.load_der_x509_certificate(der).public_key()
    except (ValueError, KeyError, IndexError, TypeError, binascii.Error) as error:
        raise Refused("trust_root", "not a trusted root of an embedded instance", where=root.name) from error
    return f"https://appliance.local.invalid/{key_id(key).hex()}"  # type: ignore[arg-type]  # any public key has an id


@dataclass(frozen=True, slots=True)
class KnownRoot:
    """One entry of roots.toml."""

    name: str
    path: Path
    sha256: str
    assurance: Assurance

    def pinned(self) -> PinnedRoot:
        return PinnedRoot.read(self.path, self.sha256, name=self.name, assurance=self.assurance)


def known_roots(roots_file: Path) -> tuple[KnownRoot, ...]:
    """The entries of roots.toml; none where there is no file. Raises Refused (trust_root) with file and entry."""
    try:
        content = read_bounded(roots_file, MAX_ROOT_BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Refused("trust_root", error.strerror or str(error), where=str(roots_file)) from error
    try:
        if len(content) > MAX_ROOT_BYTES:
            raise ValueError(f"over {MAX_ROOT_BYTES} bytes")  # noqa: TRY301 - one refusal for all
        value = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # of the syntax, of UTF-8, of digits beyond int()'s bound
        raise Refused("trust_root", f"not TOML: {error}", where=str(roots_file)) from error
    entries = value.get("root", [])
    if set(value) - {"root"} or not isinstance(entries, list):
        raise Refused("trust_root", "holds [[root]] entries and nothing else", where=str(roots_file))
    roots = tuple(_known_root(entry, f"{roots_file}: root[{i}]", roots_file) for i, entry in enumerate(entries))
    names = [root.name for root in roots]
    for name in names:
        if names.count(name) > 1:
            raise Refused("trust_root", f"two roots are called {name!r}", where=str(roots_file))
    return roots


def find_root(roots_file: Path, name: str) -> PinnedRoot:
    roots = known_roots(roots_file)
    for root in roots:
        if root.name == name:
            return root.pinned()
    known = ", ".join(root.name for root in roots) or "none"
    raise Refused(
        "trust_root",
        f"no root called {name!r} is known here (known: {known})",
        where=str(roots_file),
        mend="appliance trust init" if name == "local" else "add a [[root]] entry",
    )


def is_remembered(roots_file: Path, name: str, sha256: str | None) -> bool:
    """Whether the root of this digest is known by this name. Raises Refused where another one is: for None, which
    stands for a root that is not made yet, any."""
    for known in known_roots(roots_file):
        if known.name != name:
            continue
        if known.sha256 != sha256:
            raise Refused(
                "trust_root",
                f"{name!r} already names another root",
                where=str(roots_file),
                mend="remove or rename that entry",
            )
        known.pinned()  # the same root at another path is as good, if it is still there
        return True
    return False


def remember_root(roots_file: Path, root: KnownRoot) -> None:
    """Adds an entry, and leaves what a person wrote as it is. Another root under the same name is refused."""
    roots_file.parent.mkdir(parents=True, exist_ok=True)
    with locked(roots_file.parent / ".roots.lock"):
        if is_remembered(roots_file, root.name, root.sha256):
            return
        old = roots_file.read_text() if roots_file.exists() else ""
        gap = "" if not old else "\n" if old.endswith("\n") else "\n\n"
        fields = {
            "name": root.name,
            "path": str(root.path),
            "sha256": root.sha256,
            "assurance": root.assurance,
        }
        # A JSON string is a TOML basic string.
        lines = [f"{key} = {json.dumps(text)}" for key, text in fields.items()]
        write_atomically(roots_file, (old + gap + "\n".join(["[[root]]", *lines]) + "\n").encode(), 0o644)


def _known_root(entry: object, where: str, roots_file: Path) -> KnownRoot:
    if not isinstance(entry, dict) or set(entry) != _KEYS or not all(isinstance(v, str) for v in entry.values()):
        raise Refused("trust_root", f"has exactly the keys {', '.join(sorted(_KEYS))}, each text", where=where)
    if not _SHA256.fullmatch(entry["sha256"]):
        raise Refused("trust_root", "sha256 is 64 lower-case hex digits", where=where)
    if entry["assurance"] not in ASSURANCES:
        raise Refused("trust_root", f"assurance is one of {', '.join(ASSURANCES)}", where=where)
    path = roots_file.parent / Path(entry["path"]).expanduser()
    return KnownRoot(entry["name"], path, entry["sha256"], cast(Assurance, entry["assurance"]))
