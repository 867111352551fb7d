"""Source archives from the Python index that the machine's own pip asks (PEP 503, PEP 691), by hash.

Not by `pip download`: for a source archive it installs and runs the archive's build backend, on the host and unpinned.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit
from urllib.request import Request, urlopen

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused, InputRefused
from appliance.images.builder.recipe import Locked
from appliance.images.lock import LockedPackage
from appliance.scratch import scratch_in

_MAX_PAGE_BYTES: Final = 64 * 1024 * 1024
_SECONDS: Final = 120
_FORMS: Final = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"


def resolve(name: str, version: str, into: Path) -> LockedPackage:
    """The source archive of `name` in `version`, kept as `into/<sha256>`. Raises InputRefused where there is none."""
    with scratch_in(into) as scratch:
        archive, said = _downloaded(name, version, scratch)
        digest = sha256_of_file(archive)
        if said not in (None, digest):
            raise InputRefused(f"{archive.name} is not what the index says: its sha256 is {digest}", where="build")
        size = archive.stat().st_size
        archive.replace(into / digest)
    return LockedPackage(kind="sdist", name=name, version=version, sha256=digest, bytes=size, path=archive.name)


def download(packages: Sequence[Locked], into: Path) -> None:
    """Whatever of `packages` the index still has, by hash; the rest is left to the caller to name."""
    for package in packages:
        with scratch_in(into) as scratch:
            try:
                archive, _ = _downloaded(package.name, package.version, scratch)
            except (InputRefused, HostRefused):
                continue
            if sha256_of_file(archive) == package.sha256:
                archive.replace(into / package.sha256)


def _downloaded(name: str, version: str, scratch: Path) -> tuple[Path, str | None]:
    page = f"{_index().rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    spelt = "[-_.]+".join(re.escape(part) for part in re.split(r"[-_.]+", name))
    wanted = re.compile(rf"{spelt}-{re.escape(version)}\.tar\.gz", re.IGNORECASE)
    try:
        with _opened(page, _FORMS) as answer:
            listed = _files(answer.read(_MAX_PAGE_BYTES), answer.headers.get_content_type(), answer.url)
        found = next((one for one in listed if wanted.fullmatch(one[0])), None)
        if found is None:
            raise InputRefused(f"the index has no source archive of {name}=={version}", where="build")
        archive = scratch / found[0]
        with _opened(found[1], "*/*") as answer, archive.open("wb") as out:
            shutil.copyfileobj(answer, out, 1 << 20)
    except (URLError, TimeoutError, ConnectionError) as error:
        raise InputRefused(
            f"{name}=={version} cannot be had: {getattr(error, 'reason', error)}", where="build"
        ) from error
    return archive, found[2]


def _files(page: bytes, kind: str, base: str) -> list[tuple[str, str, str | None]]:
    """`(file name, address, sha256 where the index says it)` of each file that a project's page lists."""
    if kind.endswith("json"):
        files = json.loads(page)["files"]
        return [(one["filename"], urljoin(base, one["url"]), one.get("hashes", {}).get("sha256")) for one in files]
    links = _Links()
    links.feed(page.decode("utf-8", "replace"))
    found = []
    for link in links.found:
        url, _, fragment = urljoin(base, link).partition("#")
        digest = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else None
        found.append((unquote(urlsplit(url).path.rpartition("/")[2]), url, digest))
    return found


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for key, value in attrs if tag == "a" and key == "href" and value]


def _opened(address: str, accept: str):  # type: ignore[no-untyped-def]  # what urlopen gives has no public name
    """With the credentials that the address holds, the environment's proxies, and pip's certificates."""
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http"):
        raise InputRefused(f"an index of {parts.scheme or 'no'} scheme cannot be asked", where="build")
    user, at, host = parts.netloc.rpartition("@")
    asked = Request(urlunsplit(parts._replace(netloc=host)), headers={"Accept": accept})  # noqa: S310  checked above
    if at:
        asked.add_header("Authorization", f"Basic {base64.b64encode(unquote(user).encode()).decode()}")
    bundle = _configured("cert")
    context = ssl.create_default_context(cafile=bundle) if bundle else ssl.create_default_context()
    return urlopen(asked, timeout=_SECONDS, context=context)  # noqa: S310


def _index() -> str:
    """pip's: of its configuration, else its own default, which its help names."""
    configured = _configured("index-url")
    if configured:
        return configured
    said = _pip("download", "--help")
    found = re.search(r"\(default\s+(https?://[^\s)]+)\)", said)
    if found is None:
        raise HostRefused("pip names no index", mend="pip config set global.index-url ADDRESS")
    return found[1]


def _configured(key: str) -> str | None:
    from_environment = os.environ.get(f"PIP_{key.upper().replace('-', '_')}")
    if from_environment:
        return from_environment
    found = re.search(rf"^(?:global|download)\.{re.escape(key)}='(.*)'$", _pip("config", "list"), re.MULTILINE)
    return found[1] if found else None


def _pip(*words: str) -> str:
    ended = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise HostRefused("this Python has no pip, whose index is asked", mend=f"{sys.executable} -m ensurepip")
    return ended.stdout
