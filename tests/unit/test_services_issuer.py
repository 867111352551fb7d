"""The issuer of the services' bench: what a person types to have a token of it."""

from __future__ import annotations

import shutil
import subprocess

import jwt
import pytest

from tests.services_issuer import Issuer, minted_by


@pytest.mark.skipif(shutil.which("curl") is None, reason="the line is curl's")
def test_the_printed_line_gives_a_bare_token() -> None:
    """As `--identity-token` takes it."""
    issuer = Issuer().start()
    try:
        ended = subprocess.run(["sh", "-c", minted_by(issuer.url())], capture_output=True, text=True, check=True)
    finally:
        issuer.stop()
    assert jwt.decode(ended.stdout.strip(), options={"verify_signature": False})["iss"] == issuer.url()
