"""The options of every verb that signs: by which trust, with which identity token, how long its services may take."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from attest.trust import TrustMode
    from attest.trust.tokens import TokenSource

TrustOption = Annotated[
    str,
    typer.Option("--trust", metavar="NAME|CONFIG", help="What to sign with: a known trust, or a trust config's file."),
]
IdentityToken = Annotated[
    str | None,
    typer.Option(metavar="FILE|-", help="The identity token for a remote trust, in a file or on standard input."),
]
TokenEnv = Annotated[str | None, typer.Option(metavar="VAR", help="The environment variable that holds this token.")]
OidcInteractive = Annotated[
    bool, typer.Option("--oidc-interactive", help="Get this token from the identity provider, by a browser.")
]
SignTimeout = Annotated[
    float | None,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="What the services may take for a certificate, and for each signature (60).",
    ),
]
LOCAL: Final = "local"


def token_of(identity_token: str | None, token_env: str | None, oidc_interactive: bool) -> TokenSource:
    """By default what the surroundings give (CI). Raises UsageRefused where more than one way was asked for."""
    from attest.trust.tokens import TokenSource

    ways = [identity_token is not None, token_env is not None, oidc_interactive]
    if sum(ways) > 1:
        raise UsageRefused(
            "an identity token comes from one place",
            where="--identity-token, --token-env, --oidc-interactive",
            mend="keep one of them",
        )
    if identity_token is not None:
        return TokenSource("file", identity_token)
    if token_env is not None:
        return TokenSource("variable", token_env)
    return TokenSource("interactive" if oidc_interactive else "ambient")


def words_to_verify(signer: TrustMode | None, given: str) -> str:
    """The options by which `verify` takes what was signed; None: by somebody, before, whose name is not known here."""
    if given == LOCAL:
        return "--trust local"
    names = f"--identity {shlex.quote(signer.identity)} --issuer {shlex.quote(signer.issuer)}" if signer else ""
    if signer is not None and Path(given).is_file():
        return f"--trusted-root trusted_root.json --root-sha256 {signer.root.sha256} {names}"
    return f"--trust {shlex.quote(given)} {names or '--identity NAME --issuer URL'}"


def again(record: Path, trust: str, token: TokenSource, *more: str) -> str:
    """The line that signs a record that stayed unsigned; `more`: other options that were given."""
    words = ["appliance", "sign", str(record)]
    if trust != LOCAL:
        words += ["--trust", trust]
    words += {
        "ambient": [],
        "file": ["--identity-token", token.place],
        "variable": ["--token-env", token.place],
        "interactive": ["--oidc-interactive"],
    }[token.kind]
    return shlex.join([*words, *more])
