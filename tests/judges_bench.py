"""Independent judges of our bundles: cosign, npm's @sigstore/verify, gh. Each is asked as a stranger would ask it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attest.statement import PREDICATE_TYPE
from tests.judges_packages import packages_folder
from tests.services_build import COSIGN, GH, build

CLOSED_PROXIES: Final = dict.fromkeys(
    ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:1"
)
"""Environment in which no request that heeds a proxy arrives anywhere, loopback aside."""

Judge = Callable[[Path, Path, Path, str, str], str | None]
"""Record, bundle, trusted root, name, issuer. None: verified; else what it said."""


def offline(home: Path) -> dict[str, str]:
    """An environment with a home of its own, and no way to a network."""
    return {
        **os.environ,
        **CLOSED_PROXIES,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "TUF_ROOT": str(home / "tuf"),
    }


def cosign(record: Path, bundle: Path, root: Path, identity: str, issuer: str) -> str | None:
    build((COSIGN,))
    words = [
        "verify-blob-attestation",
        f"--bundle={bundle}",
        f"--trusted-root={root}",
        f"--certificate-identity={identity}",
        f"--certificate-oidc-issuer={issuer}",
        f"--type={PREDICATE_TYPE}",
    ]
    return _said([COSIGN.path, *words, record], "Verified OK")


def sigstore_js(record: Path, bundle: Path, root: Path, identity: str, issuer: str) -> str | None:
    argv: list[str | Path] = [
        "node",
        packages_folder() / "verify.mjs",
        bundle,
        root,
        identity,
        issuer,
        PREDICATE_TYPE,
        record,
    ]
    return _said(argv, "Verified OK")


def gh(  # noqa: PLR0917  a judge that asks for one thing more
    repository: str, record: Path, bundle: Path, root: Path, identity: str, issuer: str
) -> str | None:
    """`root` holds JSON lines, each with its end: gh reads no line that has none, and says nothing of it."""
    build((GH,))
    words = [
        f"--bundle={bundle}",
        f"--custom-trusted-root={root}",
        f"--repo={repository}",
        f"--cert-identity={identity}",
        f"--cert-oidc-issuer={issuer}",
        f"--predicate-type={PREDICATE_TYPE}",
        "--format=json",
    ]
    return _said([GH.path, "attestation", "verify", record, *words], '"verificationResult":')


JUDGES: Final[dict[str, Judge]] = {"cosign": cosign, "sigstore_js": sigstore_js}


def _said(argv: list[str | Path], verified: str) -> str | None:
    """`verified` must stand in what a judge prints with status 0: one that looked at nothing is no judge."""
    with tempfile.TemporaryDirectory() as home:
        ended = subprocess.run(
            [str(word) for word in argv],
            env=offline(Path(home)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    said = f"{ended.stdout}{ended.stderr}".strip()
    if ended.returncode == 0:
        assert verified in said, said
        return None
    return said
