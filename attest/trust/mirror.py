"""A deployment's root and services from its TUF repository; in the child only.

The metadata seen before stay in the folder: an older repository, or one by other keys, is refused by them. Nothing of
the library's own cache is read or written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tuf.api.exceptions import BadVersionNumberError, DownloadError, ExpiredMetadataError, RepositoryError
from tuf.ngclient.config import UpdaterConfig
from tuf.ngclient.updater import Updater

from attest.errors import Refused
from attest.roots import MAX_ROOT_BYTES
from attest.trust.services import SERVICES, Role, asking, bound_memory, printable

TRUSTED_ROOT: Final = "trusted_root.json"
SIGNING_CONFIG: Final = "signing_config.v0.2.json"


def fetch(url: str, folder: Path, bootstrap: bytes | None, tell: Callable[[Role, str], None]) -> dict[str, bytes]:
    """The newest `trusted_root.json`, and `signing_config.v0.2.json` where the repository has one.

    `bootstrap`: the repository's root metadata as one had it by another way; None where `folder` was filled before.
    Raises Refused: replay for a repository older than the one last seen, trust_root for all else.
    """
    bound_memory()
    metadata, targets = folder / "metadata", folder / "targets"
    for place in (metadata, targets):
        place.mkdir(parents=True, exist_ok=True)
    words = SERVICES["tuf"].words
    with asking("tuf", url, tell):
        try:
            updater = Updater(
                metadata_dir=str(metadata),
                metadata_base_url=url,
                target_dir=str(targets),
                target_base_url=f"{url.rstrip('/')}/targets/",
                config=UpdaterConfig(app_user_agent="bench-appliance"),
                bootstrap=bootstrap,
            )
            updater.refresh()
            return {
                name: content for name in (TRUSTED_ROOT, SIGNING_CONFIG) if (content := _target(updater, name, url))
            }
        except BadVersionNumberError as error:
            raise Refused("replay", f"{words} is older than it was: {printable(str(error))}", where=url) from error
        except ExpiredMetadataError as error:
            raise Refused("trust_root", f"{words} has run out: {printable(str(error))}", where=url) from error
        except DownloadError:
            raise  # the network's fault: `asking` says which
        except RepositoryError as error:
            raise Refused("trust_root", f"{words} does not hold: {printable(str(error))}", where=url) from error


def _target(updater: Updater, name: str, url: str) -> bytes | None:
    found = updater.get_targetinfo(name)
    if found is None:
        if name == TRUSTED_ROOT:
            raise Refused("trust_root", f"has no {name}", where=url)
        return None
    if found.length > MAX_ROOT_BYTES:
        raise Refused("trust_root", f"{name} has {found.length} bytes, over the bound of {MAX_ROOT_BYTES}", where=url)
    return Path(updater.find_cached_target(found) or updater.download_target(found)).read_bytes()
