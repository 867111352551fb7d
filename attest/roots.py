"""Trusted roots: pinned by digest, known by name in roots.toml. A bundle never says which one it is checked by."""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

from attest import canonical, toml
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
SELF_ASSERTED: Final = "SELF-ASSERTED local bench appliance"
"""The organisation in every certificate of an embedded instance's own authorities."""
MAX_ROOT_BYTES: Final = 1024 * 1024
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_KEYS: Final = {"name", "path", "sha256", "assurance"}
_ENTRY: Final = re.compile(r"^(?=[ \t]*\[\[[ \t]*root[ \t]*\]\])", re.MULTILINE)


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
        if self.assurance != "local" and _is_self_asserted(self.content):
            raise Refused(
                "trust_root",
                f"the root of a machine's own instance is nobody else's word, so it is not {self.assurance}",
                where=self.name,
                mend='assurance = "local"',
            )

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


def _is_self_asserted(content: bytes) -> bool:
    """Whether an embedded instance made an authority in it: its certificates say so, and only its holder can make
    others. What is no JSON is for `load_root` to refuse."""
    try:
        waiting: list[canonical.Json] = [canonical.loads(content, max_bytes=MAX_ROOT_BYTES)]
    except canonical.NotCanonical:
        return False
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, str) and (SELF_ASSERTED in value or SELF_ASSERTED.encode() in _decoded(value)):
            return True
    return False


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return b""


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
    return _parsed(content, roots_file)


def _parsed(content: bytes, roots_file: Path) -> tuple[KnownRoot, ...]:
    try:
        if len(content) > MAX_ROOT_BYTES:
            raise ValueError(f"over {MAX_ROOT_BYTES} bytes")  # noqa: TRY301 - one refusal for all
        value = toml.loads(content.decode())
    except (ValueError, RecursionError) as error:  # of the syntax, of UTF-8, of digits beyond int()'s bound
        raise Refused("trust_root", f"not TOML: {error}", where=str(roots_file)) from error
    entries = value.get("root", [])
    if set(value) - {"root"} or not isinstance(entries, list):
        raise Refused("trust_root", "holds [[root]] entries and nothing else", where=str(roots_file))
    roots = tuple(_known_root(entry, f"{roots_file}: [[root]] {i}", roots_file) for i, entry in enumerate(entries, 1))
    _refuse_two_meanings(roots, roots_file)
    return roots


def _refuse_two_meanings(roots: tuple[KnownRoot, ...], roots_file: Path) -> None:
    """Of a name, and of a root: one that stood at two levels would have the one that is read last."""
    names: dict[str, KnownRoot] = {}
    digests: dict[str, KnownRoot] = {}
    for root in roots:
        if names.setdefault(root.name, root) is not root:
            raise Refused("trust_root", f"two roots are called {root.name!r}", where=str(roots_file))
        first = digests.setdefault(root.sha256, root)
        if first.assurance != root.assurance:
            raise Refused(
                "trust_root",
                f"{first.name!r} and {root.name!r} are one root, at two levels: {first.assurance}, {root.assurance}",
                where=str(roots_file),
                mend="one level for one root",
            )


_OF_ONES_OWN: Final = (
    "appliance trust init, for what you sign; for what somebody else did: --trusted-root FILE and the words after it, "
    "as his `appliance trust export` prints them"
)


def find_root(roots_file: Path, name: str) -> PinnedRoot:
    roots = known_roots(roots_file)
    for root in roots:
        if root.name == name:
            return root.pinned()
    names = [root.name for root in roots]
    raise Refused(
        "trust_root",
        f"no root called {name!r} is known here (known: {', '.join(names) or 'none'})",
        where=str(roots_file),
        mend=_OF_ONES_OWN if name == "local" else _meant(name, names) or "add a [[root]] entry",
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


def refuse_other_level(known: KnownRoot, assurance: Assurance, roots_file: Path) -> None:
    """A level is a person's word, and stands where they can read it: nothing else changes it."""
    if known.assurance != assurance:
        raise Refused(
            "trust_root",
            f"{known.name!r} stands there as {known.assurance}, not {assurance}",
            where=str(roots_file),
            mend=f'assurance = "{assurance}" in its entry, if you mean it',
        )


def remember_root(roots_file: Path, root: KnownRoot) -> None:
    """Adds an entry, and leaves what a person wrote as it is. Another root under the same name is refused, and so is
    the same one at another level."""
    roots_file.parent.mkdir(parents=True, exist_ok=True)
    with locked(roots_file.parent / ".roots.lock"):
        before = known_roots(roots_file)
        if is_remembered(roots_file, root.name, root.sha256):
            refuse_other_level(next(known for known in before if known.name == root.name), root.assurance, roots_file)
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
        _rewrite(roots_file, old + gap + "\n".join(["[[root]]", *lines]) + "\n", (*before, root), root)


def repin_root(roots_file: Path, root: KnownRoot, before: str) -> None:
    """Puts a newer root in place of the one of digest `before`, within its own entry: its pin, and its path where the
    digest is part of that. The root's file is there already, so whoever reads meanwhile finds the old one or the new
    one whole. Raises Refused, and changes nothing, where that does not come of it."""
    with locked(roots_file.parent / ".roots.lock"):
        known = known_roots(roots_file)
        head, *entries = _ENTRY.split(read_bounded(roots_file, MAX_ROOT_BYTES).decode())
        if len(entries) == len(known):
            entries = [
                entry.replace(before, root.sha256) if one.name == root.name else entry
                for one, entry in zip(known, entries, strict=True)
            ]
        _rewrite(roots_file, head + "".join(entries), [root if one.name == root.name else one for one in known], root)


def _rewrite(roots_file: Path, text: str, roots: Sequence[KnownRoot], new: KnownRoot) -> None:
    """Only where the new text says exactly these roots, and leads to the new one's file."""
    why = "its entries are written in another way"
    try:
        found = _parsed(text.encode(), roots_file)
        if [_meaning(one) for one in found] == [_meaning(one) for one in roots]:
            next(one for one in found if one.name == new.name).pinned()
            why = ""
    except Refused as error:
        why = error.message
    if why:
        fields = f"name = {json.dumps(new.name)}, path = {json.dumps(str(new.path))}, sha256 = {json.dumps(new.sha256)}"
        raise Refused(
            "trust_root",
            f"{new.name!r} cannot be written into it: {why}",
            where=str(roots_file),
            mend=f"a [[root]] entry by hand: {fields}",
        )
    write_atomically(roots_file, text.encode(), 0o644)


def _meaning(root: KnownRoot) -> tuple[str, str, str]:
    return root.name, root.sha256, root.assurance


def _meant(typed: str, known: Iterable[str]) -> str | None:
    """`did you mean local?`"""
    near = difflib.get_close_matches(typed, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def _refuse_keys(entry: dict[str, Any], where: str) -> None:
    """Each key by its name: what is missing, what nobody knows, what is no text. Raises Refused (trust_root)."""
    missing = sorted(_KEYS - set(entry))
    for key in sorted(set(entry) - _KEYS):
        mend = _meant(key, missing) or f"an entry has {', '.join(sorted(_KEYS))}"
        raise Refused("trust_root", f"no such key: {key!r:.80}", where=where, mend=mend)
    if missing:
        raise Refused("trust_root", f"{missing[0]} is missing", where=where, mend=f'add {missing[0]} = "..."')
    for key, value in sorted(entry.items()):
        if not isinstance(value, str):
            raise Refused("trust_root", f"{key} is a text", where=where, mend=f'{key} = "..."')


def _known_root(entry: object, where: str, roots_file: Path) -> KnownRoot:
    if not isinstance(entry, dict):
        raise Refused("trust_root", "holds [[root]] entries and nothing else", where=where)
    where = f"{where} ({entry['name']})" if isinstance(entry.get("name"), str) else where
    _refuse_keys(entry, where)
    if not _SHA256.fullmatch(entry["sha256"]):
        raise Refused("trust_root", "sha256 is 64 lower-case hex digits", where=where)
    if entry["assurance"] not in ASSURANCES:
        raise Refused("trust_root", f"assurance is one of {', '.join(ASSURANCES)}", where=where)
    if not entry["name"].isprintable() or "\0" in entry["path"]:
        raise Refused("trust_root", "name and path are text that can be printed", where=where)
    try:
        path = roots_file.parent / Path(entry["path"]).expanduser()
    except RuntimeError as error:  # ~NAME, of nobody
        raise Refused("trust_root", f"path: {error}", where=where, mend="a path without ~") from error
    return KnownRoot(entry["name"], path, entry["sha256"], cast(Assurance, entry["assurance"]))
