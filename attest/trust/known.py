"""Remote trusts on disk: a folder a name, whose root is pinned in roots.toml.

`NAME/` (0700) holds `trusted_root.json` and `trust_config.json`; for one from a TUF repository `tuf/` with the metadata
last seen, `mirror.json` with its URL, and those two files in a folder for each root that it has had, by its sha256:
roots.toml alone says which of them is the one. Made whole or not at all, as the local one.
"""

from __future__ import annotations

import base64
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from attest import canonical
from attest.errors import Refused
from attest.library import load_root
from attest.local.files import locked, read_bounded, sync_folder, write_atomically
from attest.roots import (
    Assurance,
    KnownRoot,
    PinnedRoot,
    known_roots,
    refuse_other_level,
    remember_root,
    repin_root,
)
from attest.trust.config import MAX_CONFIG_BYTES, ServiceUrl, TrustConfig
from attest.trust.session import SIGN_SECONDS, Child

CONFIG: Final = "trust_config.json"
ROOT: Final = "trusted_root.json"
_MIRROR: Final = "mirror.json"
_TUF: Final = "tuf"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_PUBLIC_URL: Final = "https://tuf-repo-cdn.sigstore.dev"


@dataclass(frozen=True, slots=True)
class Known:
    """What became of an `init`."""

    root: KnownRoot
    signs: bool
    """Whether it says where the services are; else it only verifies."""
    before: str | None
    """The digest that was pinned under this name until now; None where there was none."""
    services: tuple[ServiceUrl, ...] = ()


def read_config(path: Path) -> TrustConfig:
    """Raises Refused (trust_root)."""
    try:
        content = read_bounded(path, MAX_CONFIG_BYTES)
    except OSError as error:
        mend = "a client trust config: its deployment's own people have it"
        raise Refused("trust_root", error.strerror or str(error), where=str(path), mend=mend) from error
    return TrustConfig.parse(content, str(path))


def embedded(name: str) -> bytes:
    """A file of the public-good instance as sigstore-python was released with it: `root.json` (of its TUF repository),
    `trusted_root.json`, `signing_config.v0.2.json`."""
    from sigstore._utils import read_embedded

    return read_embedded(name, _PUBLIC_URL)


def init_from_config(
    folders: Path, roots_file: Path, name: str, config: TrustConfig, assurance: Assurance, *, root: bytes | None = None
) -> Known:
    """A deployment whose config one has; `root` are its root's own bytes, else it is written in canonical form.

    Raises Refused (trust_root) where the name stands for another root already: a config has no version, so nobody could
    say which is the newer one; or for this one at another level.
    """
    content = config.root if root is None else root
    _check_root(content, name, assurance)
    with _folder(folders, name) as folder:
        known = KnownRoot(name, folder / ROOT, sha256(content).hexdigest(), assurance)
        before = _pinned_before(roots_file, name, assurance)
        if before not in (None, known.sha256):
            raise _taken(name, roots_file)
        _forget(folder, before)
        _fill(folder, {ROOT: content, CONFIG: config.content})
        remember_root(roots_file, known)
    return Known(known, True, before, config.services)


def init_from_mirror(
    folders: Path,
    roots_file: Path,
    name: str,
    url: str,
    assurance: Assurance,
    *,
    bootstrap: bytes | None,
    seconds: float = SIGN_SECONDS,
) -> Known:
    """A deployment by its TUF repository, or the newest of one that was made so before (then `bootstrap` may be None).

    The metadata seen before decide what is newer: a root that they replace is pinned anew. Raises Refused: replay for a
    repository older than last time, trust_root for all else, naming the mirror.
    """
    with _folder(folders, name) as folder:
        before = _pinned_before(roots_file, name, assurance)
        _forget(folder, before)
        made = (folder / _MIRROR).is_file()
        if before is not None and not made:
            raise _taken(name, roots_file)
        if bootstrap is None and not made:
            raise Refused(
                "trust_root",
                "nothing is known of this mirror yet",
                where=url,
                mend="--tuf-root FILE, its root metadata, which you had by another way",
            )
        tuf = folder / _TUF if made else Path(tempfile.mkdtemp(prefix=f".{name}.draft.", dir=folders))
        try:
            content, config = _fetched(url, tuf, None if made else bootstrap, seconds)
            _check_root(content, name, assurance)
            digest = sha256(content).hexdigest()
            known = KnownRoot(name, folder / digest / ROOT, digest, assurance)
            files = {ROOT: content, **({CONFIG: config.content} if config else {})}
            own = {f"{digest}/{file}": found for file, found in files.items()}
            _fill(folder, {**own, _MIRROR: canonical.dumps({"url": url})}, None if made else tuf)
        finally:
            if not made:
                shutil.rmtree(tuf, ignore_errors=True)
        if before in (None, digest):
            remember_root(roots_file, known)
        else:
            repin_root(roots_file, known, before)
    return Known(known, config is not None, before, config.services if config else ())


def mirror_of(folders: Path, name: str) -> str | None:
    """The URL that a trust came from; None for one that came from no TUF repository."""
    try:
        return str(canonical.loads(read_bounded(folders / name / _MIRROR, 4096))["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def assurance_before(roots_file: Path, name: str) -> Assurance | None:
    return next((root.assurance for root in known_roots(roots_file) if root.name == name), None)


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == "local":
        words = "a name is lower-case letters, digits, '.', '_' and '-', and not 'local'"
        raise Refused("usage", words, where=f"--name {name[:80]!r}", mend="--name lab")


@contextmanager
def _folder(folders: Path, name: str) -> Iterator[Path]:
    """Held against everybody who would make the same one."""
    check_name(name)
    try:
        folders.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folders / f".{name}.lock"):
            for draft in folders.glob(f".{name}.draft.*"):  # of one that was killed
                shutil.rmtree(draft, ignore_errors=True)
            yield folders / name
    except OSError as error:
        raise Refused("trust_root", error.strerror or str(error), where=str(error.filename or folders)) from error


def _forget(folder: Path, before: str | None) -> None:
    """A folder that roots.toml does not know is what a person took out there, or what an init left that was killed."""
    if before is None and folder.exists():
        shutil.rmtree(folder)


def _fill(folder: Path, files: dict[str, bytes], tuf: Path | None = None) -> None:
    """All of them at once where the folder is new; one after the other, the root first, where it is known already:
    what is pinned then is not among those that change."""
    if folder.exists():
        _write(folder, files)
        return
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.draft.", dir=folder.parent))  # mode 0700
    _write(draft, files)
    if tuf is not None:
        tuf.rename(draft / _TUF)
    draft.rename(folder)
    sync_folder(folder.parent)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        place = folder / name
        if not place.parent.exists():
            place.parent.mkdir(mode=0o700)
            sync_folder(folder)
        write_atomically(place, content, 0o644)


def _fetched(url: str, tuf: Path, bootstrap: bytes | None, seconds: float) -> tuple[bytes, TrustConfig | None]:
    """The trusted root, and the config made of it where the repository says where the services are."""
    child = Child(seconds)
    try:
        found = child.ask(
            {
                "mirror": {
                    "url": url,
                    "folder": str(tuf),
                    "bootstrap": base64.b64encode(bootstrap).decode() if bootstrap else None,
                }
            }
        )
    finally:
        child.close()
    root, *services = (base64.b64decode(content) for content in found.values())
    return root, TrustConfig.of(root, services[0], url) if services else None


def _check_root(content: bytes, name: str, assurance: Assurance) -> None:
    load_root(PinnedRoot(name, content, sha256(content).hexdigest(), assurance))


def _pinned_before(roots_file: Path, name: str, assurance: Assurance) -> str | None:
    for root in known_roots(roots_file):
        if root.name == name:
            refuse_other_level(root, assurance, roots_file)
            return root.sha256
    return None


def _taken(name: str, roots_file: Path) -> Refused:
    return Refused(
        "trust_root", f"{name!r} already names another root", where=str(roots_file), mend="another --name, or remove it"
    )
