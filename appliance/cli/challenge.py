"""`appliance challenge`: a receiver's nonce, signed, that a run is bound to before its first trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from appliance.cli.output import emit_json, line, note
from appliance.cli.signer_options import (
    LOCAL,
    IdentityToken,
    OidcInteractive,
    SignTimeout,
    TokenEnv,
    TrustOption,
    token_of,
)
from appliance.errors import UsageRefused

if TYPE_CHECKING:
    from appliance.audit.policy import Policy

app = typer.Typer()


@app.command("new")
def new(  # noqa: PLR0917 - a command's options
    suite: Annotated[str, typer.Option(help="The suite that it is for: a name in ./tasks or the bundle, or a path.")],
    policy: Annotated[Path, typer.Option(metavar="FILE", help="The policy that records will be judged by.")],
    into: Annotated[Path, typer.Option(metavar="STORE", help="The store that will receive them; made if need be.")],
    to: Annotated[Path, typer.Option(metavar="FILE", help="Where to write what is handed out.")],
    expires_in: Annotated[str, typer.Option(metavar="SPAN", help="As 14d, 36h, 90m.")] = "14d",
    trust: TrustOption = LOCAL,
    identity_token: IdentityToken = None,
    token_env: TokenEnv = None,
    oidc_interactive: OidcInteractive = False,
    sign_timeout: SignTimeout = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Write a new challenge to FILE and its signature beside it; STORE remembers that it issued it."""
    from datetime import UTC, datetime

    from appliance.audit.policy import read_policy
    from appliance.audit.trust import bundle_path, open_trust
    from appliance.files import write_atomically
    from appliance.submissions.challenge import ChallengedPolicy, ChallengedSuite, new_challenge, span_of
    from appliance.submissions.issuing import issue
    from appliance.submissions.store import Store
    from appliance.tasks.reader import find_suite, read_suite

    lasts = span_of(expires_in)
    found = read_policy(policy)
    asked = read_suite(find_suite(suite))
    _refuse_unlisted(found, asked.name, asked.digest)
    if to.exists():
        raise UsageRefused("something is there already", where=f"--to {to}", mend="name another file")
    signer = open_trust(trust, token_of(identity_token, token_env, oidc_interactive), seconds=sign_timeout, say=note)
    store = Store(into, (signer.root, signer.identity, signer.issuer))
    with store.alone(signer):
        challenge = new_challenge(
            ChallengedSuite(name=asked.name, digest=asked.digest),
            ChallengedPolicy(name=found.name, version=found.version, sha256=found.digest),
            store.origin,
            lasts,
            datetime.now(UTC),
        )
        bundle = issue(store, challenge, signer)
    write_atomically(bundle_path(to), bundle)
    write_atomically(to, challenge.canonical())
    if json:
        emit_json(
            {"challenge": str(to), "sha256": challenge.sha256, "bundle": str(bundle_path(to)), **challenge.json_value()}
        )
        return
    line(str(to))
    note(
        f"challenge {challenge.sha256[:12]} for suite {asked.name} ({asked.digest[:12]}), until {challenge.expires_at}"
    )
    note(f"a record meets it by: appliance run --suite {asked.name} --challenge {to.name} ...")


def _refuse_unlisted(policy: Policy, name: str, digest: str) -> None:
    if policy.suite(digest) is None:
        raise UsageRefused(
            f"the policy takes no suite {name} of digest {digest}",
            where=str(policy.where),
            mend="list it in [[suites]]",
        )
