"""`appliance trust`, `sign` and `verify` as typed, with the real services: what they sign, and how they fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.services_bench import Services
from tests.services_clock import moved
from tests.services_desk import Desk
from tests.services_issuer import PERSON, PIPELINE, RUNNER_TOKEN, WORKFLOW, answering

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("services")).start()
    yield made
    made.stop()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "desk")


@pytest.fixture
def token(services: Services, tmp_path: Path) -> Path:
    path = tmp_path / "person.jwt"
    path.write_text(services.token())
    return path


def verified(desk: Desk, identity: str, issuer: str, **how: Any) -> Any:
    return desk.says("verify", desk.record, "--trust", "lab", "--identity", identity, "--issuer", issuer, **how)


def test_the_private_mode_signs_through_the_services_and_verifies_with_all_of_them_down(tmp_path: Path) -> None:
    """Decisions 1 and 2 of attest.md: one bundle shape, a pinned root, offline always."""
    desk = Desk(tmp_path / "desk")
    services = Services(tmp_path / "services").start()
    try:
        token = tmp_path / "token"
        token.write_text(services.token())
        issuer = services.issuer_url()
        made = desk.says("trust", "init", "--name", "lab", "--config", services.trust_config)
        signed = desk.says("sign", desk.record, "--trust", "lab", "--identity-token", token)
    finally:
        services.stop()
    assert (signed["identity"], signed["issuer"], signed["assurance"]) == (PERSON, issuer, "private")
    found = verified(desk, PERSON, issuer, cut_off=True)
    assert found["verified"]
    assert found["assurance"] == "private"
    assert found["root"] == {"name": "lab", "sha256": made["rootSha256"]}
    assert {check["status"] for check in found["checks"]} == {"passed"}
    assert verified(desk, f"b{PERSON}", issuer, status=7)["error"]["reason"] == "identity"
    assert verified(desk, PERSON, f"{issuer}x", status=7)["error"]["reason"] == "identity"
    assert desk.says("verify", desk.record, "--trust", "lab", status=2)["error"]["reason"] == "usage"
    desk.record.write_bytes(desk.content[:-1] + b" }")
    assert verified(desk, PERSON, issuer, status=7)["error"]["reason"] == "subject"


def test_a_token_comes_from_a_file_a_variable_or_standard_input(services: Services, desk: Desk, token: Path) -> None:
    """Each of the ways that `sign --help` names; the trust is a config's file, of which nothing is kept."""
    ways: list[tuple[tuple[str | Path, ...], dict[str, Any]]] = [
        (("--identity-token", token), {}),
        (("--identity-token", "-"), {"given": services.token()}),
        (("--token-env", "LAB_TOKEN"), {"LAB_TOKEN": services.token()}),
    ]
    for words, how in ways:
        signed = desk.says("sign", desk.record, "--trust", services.trust_config, *words, **how)
        assert (signed["identity"], signed["assurance"]) == (PERSON, "private")


def test_github_actions_and_gitlab_name_themselves_by_what_they_offer_their_runs(
    services: Services, desk: Desk
) -> None:
    """Ambient tokens: the request URL of GitHub Actions, the variable of GitLab CI; the name is the workflow's."""
    shapes: dict[str, tuple[str, dict[str, Any]]] = {
        "github": (
            WORKFLOW,
            {
                "GITHUB_ACTIONS": "true",
                "ACTIONS_ID_TOKEN_REQUEST_URL": f"{services.issuer_url('github')}/runner?api-version=2.0",
                "ACTIONS_ID_TOKEN_REQUEST_TOKEN": RUNNER_TOKEN,
            },
        ),
        "gitlab": (PIPELINE, {"GITLAB_CI": "true", "SIGSTORE_ID_TOKEN": services.token("gitlab")}),
    }
    desk.types("trust", "init", "--name", "lab", "--config", services.trust_config)
    for kind, (name, environment) in shapes.items():
        signed = desk.says("sign", desk.record, "--trust", "lab", "--replace", **environment)
        assert (signed["identity"], signed["issuer"]) == (name, services.issuer_url(kind))
        assert verified(desk, name, services.issuer_url(kind))["verified"]
        lacking = {key: value for key, value in environment.items() if not key.endswith("TOKEN")}
        refused = desk.says("sign", desk.record, "--trust", "lab", status=7, **lacking)
        assert refused["error"]["reason"] == "identity"


def test_a_person_at_a_browser_signs(services: Services, desk: Desk, tmp_path: Path) -> None:
    """The interactive flow: authorisation code and PKCE, the answer to a port of ours."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n")
    browser.chmod(0o755)
    how: dict[str, Any] = {"BROWSER": f"{browser} %s"}
    signed = desk.says("sign", desk.record, "--trust", services.trust_config, "--oidc-interactive", **how)
    assert (signed["identity"], signed["issuer"]) == (PERSON, services.issuer_url())


def assert_left_unsigned(desk: Desk, ended: CompletedProcess[str], reason: str, *named: str) -> None:
    """One clear error; the record is as it was, no bundle is there, and the line that signs later was told."""
    error = json.loads(ended.stdout)["error"]
    assert error["reason"] == reason
    for word in named:
        assert word in f"{error['where']} {error['message']}", error
    assert error["mend"]
    assert desk.record.read_bytes() == desk.content
    assert [path.name for path in desk.record.parent.iterdir()] == [desk.record.name]
    assert f"appliance sign {desk.record}" in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("asleep", "named", "reason"),
    [
        ("fulcio", "fulcio", "certificate"),
        ("ct", "fulcio", "certificate"),
        ("rekor", "rekor", "log_entry"),
        ("tsa", "tsa", "time"),
    ],
)
def test_a_service_that_never_answers_is_named_within_the_bound(  # noqa: PLR0917  fixtures
    asleep: str, named: str, reason: str, services: Services, desk: Desk, token: Path
) -> None:
    """A Fulcio, or the log of certificates that it asks, a Rekor, a timestamp authority that sleep."""
    words = ("--trust", services.trust_config, "--identity-token", token, "--sign-timeout", "3", "--json")
    with services.paused(asleep):
        ended = desk.types("sign", desk.record, *words, status=7)
    assert_left_unsigned(desk, ended, reason, services.url(named))


def changed(role: str, url: str) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        config["signingConfig"][role][0]["url"] = url

    return change


@pytest.mark.parametrize(
    ("role", "reason"), [("caUrls", "certificate"), ("rekorTlogUrls", "log_entry"), ("tsaUrls", "time")]
)
def test_a_service_that_answers_500_is_named(  # noqa: PLR0917  fixtures
    role: str, reason: str, services: Services, desk: Desk, token: Path, tmp_path: Path
) -> None:
    """A Rekor that answers 500, as any of the others: its status is told."""
    body = json.dumps({"code": 13, "message": "storage is full"}).encode()
    with answering(lambda _: (500, "application/json", body)) as url:
        config = services.config_with(tmp_path / "config.json", changed(role, url))
        words = ("--trust", config, "--identity-token", token, "--json")
        ended = desk.types("sign", desk.record, *words, status=7)
    assert_left_unsigned(desk, ended, reason, url, "500")


@pytest.mark.parametrize("days", [-1, 1, -4000])
def test_a_timestamp_authority_with_a_wrong_clock_makes_no_bundle(
    days: int, services: Services, desk: Desk, token: Path, tmp_path: Path
) -> None:
    """Its key is the right one and its answer genuine, but for the time: found before a stranger finds it."""
    address = f"{services.url('tsa')}/api/v1/timestamp"
    with answering(moved(address, services.folder / "tsa.pem", timedelta(days=days))) as url:
        config = services.config_with(tmp_path / "config.json", changed("tsaUrls", url))
        words = ("--trust", config, "--identity-token", token, "--json")
        ended = desk.types("sign", desk.record, *words, status=7)
    assert_left_unsigned(desk, ended, "time")


def test_the_moved_clock_is_all_that_is_wrong_with_that_authority(
    services: Services, desk: Desk, token: Path, tmp_path: Path
) -> None:
    """The same answers, moved by nothing, are taken: the test above refuses the time, not the forgery."""
    address = f"{services.url('tsa')}/api/v1/timestamp"
    with answering(moved(address, services.folder / "tsa.pem", timedelta())) as url:
        config = services.config_with(tmp_path / "config.json", changed("tsaUrls", url))
        assert desk.says("sign", desk.record, "--trust", config, "--identity-token", token)["identity"] == PERSON


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"exp": 1}, "identity"), ({"aud": "somebody-else"}, "identity"), ({"iss": "http://127.0.0.1:1"}, "certificate")],
)
def test_a_token_that_does_not_hold_is_refused_before_anything_is_signed(
    changes: dict[str, Any], reason: str, services: Services, desk: Desk, tmp_path: Path
) -> None:
    """Expired, for another audience, of an issuer that Fulcio does not know."""
    token = tmp_path / "token"
    token.write_text(services.token(**changes))
    words = ("--trust", services.trust_config, "--identity-token", token, "--json")
    assert_left_unsigned(desk, desk.types("sign", desk.record, *words, status=7), reason)
