"""Signing with a deployment: both versions of its log, every source of a token, and each service that fails."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from cryptography import x509
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy

from attest import Refused, canonical, statement, verify
from attest.bundle import parse
from attest.roots import PinnedRoot
from attest.signing import sign_record, sign_statement
from attest.trust import remote as remote_module
from attest.trust.config import RekorVersion, TrustConfig
from attest.trust.remote import RemoteTrust
from attest.trust.tokens import TokenSource
from tests.attest_forge import RECORD, claims
from tests.sigstore_twin import PERSON, PIPELINE, WORKFLOW, Fault, Service, Twin, running

BOUND_SECONDS = 3.0
_CI = ("GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "GOOGLE_SERVICE_ACCOUNT_NAME", "SIGSTORE_ID_TOKEN")


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Twin]:
    with running(tmp_path / "twin") as found:
        yield found


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Not in CI, and with a home of its own: whoever would read or fill a cache does it there."""
    for name in _CI:
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(home))
    return home


def pinned(config: TrustConfig) -> PinnedRoot:
    return PinnedRoot("twin", config.root, hashlib.sha256(config.root).hexdigest(), "private")


def remote(
    twin: Twin,
    token: TokenSource | None = None,
    *,
    version: RekorVersion | None = None,
    seconds: float = 30,
    content: bytes | None = None,
) -> RemoteTrust:
    """`token`: by default one in a file."""
    config = TrustConfig.parse(content or twin.trust_config(), "twin.json")
    if token is None:
        (twin.folder / "token").write_text(f"{twin.token()}\n")
        token = TokenSource("file", str(twin.folder / "token"))
    return RemoteTrust(pinned(config), config, token, where="twin.json", seconds=seconds, rekor_version=version)


@pytest.mark.parametrize(("version", "kind"), [(1, ("dsse", "0.0.1")), (2, ("hashedrekord", "0.0.2"))])
def test_a_record_signed_by_a_deployment_verifies_with_the_deployment_gone(
    tmp_path: Path, version: RekorVersion, kind: tuple[str, str]
) -> None:
    """Entries of both versions of the log, by our checks and by the bare library (attest 0.6; rows V10 to V15)."""
    with running(tmp_path / "twin") as twin:
        trust = remote(twin, version=version)
        bundle = sign_record(trust, RECORD, claims())
        identity, issuer = trust.identity, trust.issuer
    assert (identity, issuer) == (WORKFLOW, twin.issuer)
    entry = parse(bundle).entry
    assert (entry.kind, entry.version) == kind
    assert entry.has_promise == (version == 1)
    report = verify(RECORD, bundle, trust.root, identity, issuer)
    assert report.assurance == "private"
    assert report.verified is not None
    assert report.verified.predicate["assurance"] == "private"
    assert report.verified.predicate["log"] is None
    (tmp_path / "root.json").write_bytes(trust.root.content)
    bare = Verifier(trusted_root=TrustedRoot.from_file(str(tmp_path / "root.json")))
    kind_of_payload, payload = bare.verify_dsse(
        Bundle.from_json(bundle), policy.Identity(identity=identity, issuer=issuer)
    )
    assert kind_of_payload == statement.PAYLOAD_TYPE
    assert statement.parse(payload).predicate_type == statement.PREDICATE_TYPE


def test_a_log_of_version_2_gets_a_digest_and_one_of_version_1_is_said_to_keep_the_whole_statement(twin: Twin) -> None:
    """An embargoed result stays at home with version 2 (attest 2: Rekor v1 receives the whole envelope)."""
    assert remote(twin).whole_log is None
    assert remote(twin, version=1).whole_log == f"{twin.url}/rekor"
    sign_record(remote(twin), RECORD, claims())
    body = json.loads(parse(sign_record(remote(twin), RECORD, claims())).entry.body)
    assert body["spec"]["hashedRekordV002"]["data"]["algorithm"] == "SHA2_256"
    assert "payload" not in json.dumps(body)


def test_one_certificate_signs_many_statements_and_one_that_runs_out_is_replaced(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token, one certificate, any number of signatures; nearly out of time, the next signature gets another one."""
    trust = remote(twin)
    first = [sign_record(trust, RECORD, claims()) for _ in range(3)]
    assert twin.asked.count("/api/v2/signingCert") == 1
    assert len({parse(bundle).certificate for bundle in first}) == 1
    assert len({parse(bundle).entry.index for bundle in first}) == 3
    monkeypatch.setattr(remote_module, "_SPARE", remote_module.timedelta(hours=1))
    assert parse(sign_record(trust, RECORD, claims())).certificate != parse(first[0]).certificate
    assert twin.asked.count("/api/v2/signingCert") == 2


def test_the_token_of_github_and_gitlab_is_taken_from_the_surroundings(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ambient credentials in both shapes; the identity is that of the certificate which came of them (attest 2)."""
    for system, name in (("github", WORKFLOW), ("gitlab", PIPELINE)):
        with monkeypatch.context() as patch:
            for variable, value in twin.surroundings(system).items():  # type: ignore[arg-type]
                patch.setenv(variable, value)
            trust = remote(twin, TokenSource())
            trust.refuse_unready()
            verify(RECORD, sign_record(trust, RECORD, claims()), trust.root, name, twin.issuer)


@pytest.mark.parametrize("lacking", ["ACTIONS_ID_TOKEN_REQUEST_TOKEN", "SIGSTORE_ID_TOKEN"])
def test_a_ci_run_that_may_have_no_token_is_told_which_line_gives_it_one(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    """GitHub without `id-token: write`, GitLab without `id_tokens` (attest 2: missing -> refused)."""
    system = "gitlab" if lacking == "SIGSTORE_ID_TOKEN" else "github"
    for variable, value in twin.surroundings(system).items():  # type: ignore[arg-type]
        if variable != lacking:
            monkeypatch.setenv(variable, value)
    with pytest.raises(Refused, match=lacking) as refused:
        sign_record(remote(twin, TokenSource()), RECORD, claims())
    assert refused.value.reason == "identity"
    assert "id-token: write" in str(refused.value.mend)
    assert "SIGSTORE_ID_TOKEN: aud: sigstore" in str(refused.value.mend)


def test_a_person_at_a_browser_gets_a_token_by_code_and_pkce(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorisation code flow with a proof key; whatever the browser prints comes not between our lines."""
    monkeypatch.setenv("BROWSER", "curl -sL %s")
    trust = remote(twin, TokenSource("interactive"))
    verify(RECORD, sign_record(trust, RECORD, claims()), trust.root, PERSON, twin.issuer)
    assert [path for path in twin.asked if path.startswith("/oidc/")] == [
        "/oidc/.well-known/openid-configuration",
        "/oidc/auth",
        "/oidc/token",
    ]


def test_a_person_may_take_longer_than_the_services(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who looks for a second factor is no service that hangs; neither end of the pipe gives up on them."""
    monkeypatch.setenv("BROWSER", "sh -c 'sleep 9; curl -sL %s'")
    assert remote(twin, TokenSource("interactive"), seconds=3).identity == PERSON


def test_a_token_is_read_from_a_variable_a_file_or_a_pipe_and_never_told(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Explicit tokens; a refusal names the place, and never what lies in it."""
    monkeypatch.setenv("LAB_TOKEN", twin.token(PERSON))
    assert remote(twin, TokenSource("variable", "LAB_TOKEN")).identity == PERSON
    read, write = os.pipe()
    os.write(write, twin.token(PERSON).encode())
    os.close(write)
    assert remote(twin, TokenSource("file", f"/dev/fd/{read}")).identity == PERSON
    os.close(read)
    secrets = ("not a token but secret", "bm90.YSB0b2tlbg.YnV0IHNlY3JldA")
    for name, secret in zip(("LAB_TOKEN", "LIKE_A_TOKEN"), secrets, strict=True):
        monkeypatch.setenv(name, secret)
    cases = {
        TokenSource("variable", "LAB_TOKEN"): "not an identity token",
        TokenSource("variable", "LIKE_A_TOKEN"): "no identity token that can be used",
        TokenSource("variable", "UNSET_TOKEN"): "no identity token there",
        TokenSource("file", str(tmp_path / "absent")): "No such file",
        TokenSource(): "nothing here gives one by itself",
    }
    for source, words in cases.items():
        with pytest.raises(Refused, match=words) as refused:
            _ = remote(twin, source).identity
        assert refused.value.reason == "identity"
        assert refused.value.mend
        assert not [secret for secret in secrets if secret in str(refused.value)]


@pytest.mark.parametrize("fault", ["phrase", "echo", "shout"])
@pytest.mark.parametrize("kind", ["file", "ambient", "interactive"])
def test_a_service_that_says_a_token_again_does_not_get_it_into_our_words(
    twin: Twin, monkeypatch: pytest.MonkeyPatch, kind: Literal["file", "ambient", "interactive"], fault: Fault
) -> None:
    """In its reason phrase, its body or a line that is no answer: refusals go to terminals, and to logs of CI."""
    given = twin.token()
    (twin.folder / "token").write_text(given)
    monkeypatch.setenv("BROWSER", "curl -sL %s")
    if kind == "ambient":
        for name, value in twin.surroundings("gitlab").items():
            monkeypatch.setenv(name, value)
        given = os.environ["SIGSTORE_ID_TOKEN"]
    twin.faults["fulcio"] = fault
    with pytest.raises(Refused) as refused:
        _ = remote(twin, TokenSource(kind, str(twin.folder / "token"))).identity
    assert refused.value.reason == "certificate"
    assert "[token]" in refused.value.message
    if kind != "interactive":
        shared = {given[at : at + 16] for at in range(len(given) - 15)}
        assert not [piece for piece in shared if piece in str(refused.value)]
    assert "eyJ" not in str(refused.value)  # as every JWT begins
    assert len(refused.value.message) < 300


@pytest.mark.parametrize(("service", "version"), [("fulcio", 2), ("tsa", 1), ("rekor", 1), ("rekor", 2)])
def test_a_service_that_sends_elsewhere_is_not_followed(
    twin: Twin, service: Service, version: RekorVersion, tmp_path: Path
) -> None:
    """Where tokens and statements go, and over what, is said by the config: not by whoever answers at its addresses."""
    with running(tmp_path / "elsewhere") as other:
        twin.elsewhere = f"{other.url}/rekor/api/v2/log/entries"
        twin.faults[service] = "away"
        with pytest.raises(Refused, match=f"307: it sends to {other.url}") as refused:
            sign_record(remote(twin, version=version), RECORD, claims())
        assert refused.value.reason == SERVICES[service][0]
        assert other.asked == []


@pytest.mark.parametrize("place", ["signingConfig", "trustedRoot"])
def test_a_config_whose_moments_have_no_zone_is_refused_with_their_place(twin: Twin, place: str) -> None:
    """The library compares them with ones that have a zone."""
    value = json.loads(twin.trust_config())
    service = value[place]["caUrls" if place == "signingConfig" else "certificateAuthorities"][0]
    service["validFor"]["start"] = "2020-01-01T00:00:00"
    with pytest.raises(Refused, match="a moment without its zone") as refused:
        TrustConfig.parse(canonical.dumps(value), "lab.json")
    assert refused.value.reason == "trust_root"
    assert str(refused.value.where).startswith(f"lab.json $.{place}.")
    assert str(refused.value.where).endswith("[0].validFor.start")


@pytest.mark.parametrize("seconds", [-1, -3600])
def test_a_token_out_of_its_time_or_for_somebody_else_is_refused_before_anybody_is_asked(
    twin: Twin, seconds: int
) -> None:
    """What cannot succeed is not sent."""
    (twin.folder / "old").write_text(twin.token(seconds=seconds - 10))
    with pytest.raises(Refused, match="expired") as refused:
        _ = remote(twin, TokenSource("file", str(twin.folder / "old"))).identity
    assert refused.value.reason == "identity"
    (twin.folder / "other").write_text(twin.token(audience="another"))
    with pytest.raises(Refused, match="no identity token that can be used"):
        _ = remote(twin, TokenSource("file", str(twin.folder / "other"))).identity
    assert twin.asked == []


SERVICES: dict[Service, tuple[str, str]] = {
    "fulcio": ("certificate", "the certificate authority (Fulcio)"),
    "rekor": ("log_entry", "the log (Rekor)"),
    "tsa": ("time", "the timestamp authority (TSA)"),
}
FAULTS: dict[Fault, str] = {
    "error": "answered 500 Internal Server Error",
    "garbage": "answered with what",
    "closes": "cannot be reached",
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(("service", "version"), [("fulcio", 2), ("tsa", 1), ("rekor", 1), ("rekor", 2)])
def test_a_service_that_fails_is_named_with_its_address_and_what_it_said(
    twin: Twin, service: Service, fault: Fault, version: RekorVersion
) -> None:
    """One clear refusal, of the class of the check that the service's answer would have had to pass (issue 5)."""
    reason, words = SERVICES[service]
    twin.faults[service] = fault
    with pytest.raises(Refused) as refused:
        sign_record(remote(twin, version=version), RECORD, claims())
    assert refused.value.reason == reason
    assert refused.value.message.startswith(f"{words} {FAULTS[fault]}")
    assert str(refused.value.where).startswith(twin.url)
    assert refused.value.mend
    assert refused.value.message.isprintable()  # what a stranger's server wrote steers no terminal


@pytest.mark.parametrize(
    ("service", "fault"), [("fulcio", "silent"), ("fulcio", "drips"), ("rekor", "silent"), ("tsa", "drips")]
)
def test_a_service_that_never_answers_is_named_when_its_time_is_up(twin: Twin, service: Service, fault: Fault) -> None:
    """Fulcio's and Rekor's clients have no timeout of their own, and a byte a second defeats every other (issue 5)."""
    reason, words = SERVICES[service]
    twin.faults[service] = fault
    trust = remote(twin, seconds=BOUND_SECONDS)
    with pytest.raises(Refused, match="has not answered") as refused:
        sign_record(trust, RECORD, claims())
    assert refused.value.reason == reason
    assert refused.value.message.startswith(words)
    assert str(refused.value.where).startswith(twin.url)


def test_a_service_that_answers_without_end_takes_no_more_memory_than_the_signing_process_may_have(twin: Twin) -> None:
    """A flood ends by the process's own bound, whatever time it has (CVE-2024-29902's lesson: unbounded input)."""
    twin.faults["fulcio"] = "floods"
    with pytest.raises(Refused, match="the certificate authority") as refused:
        sign_record(remote(twin, seconds=300), RECORD, claims())
    assert refused.value.reason == "certificate"
    assert "more memory" in refused.value.message


def test_an_identity_provider_that_never_answers_is_named_when_its_time_is_up(
    twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same of CI's own endpoint, and of the provider that a person would be sent to."""
    twin.faults["oidc"] = "drips"
    for variable, value in twin.surroundings("github").items():
        monkeypatch.setenv(variable, value)
    for source in (TokenSource(), TokenSource("interactive")):
        with pytest.raises(Refused, match=r"the identity provider \(OIDC\) has not answered within 3 s") as refused:
            _ = remote(twin, source, seconds=BOUND_SECONDS).identity
        assert refused.value.reason == "identity"


def test_a_deployment_that_is_not_there_is_named_with_why(twin: Twin) -> None:
    """Connection refused, in words."""
    trust = remote(twin)
    twin.close()
    with pytest.raises(Refused, match="cannot be reached: Connection refused") as refused:
        sign_record(trust, RECORD, claims())
    assert refused.value.reason == "certificate"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("fault", ["late", "early"])
def test_a_timestamp_authority_with_a_wrong_clock_is_found_before_anything_is_logged(
    twin: Twin, fault: Fault, version: RekorVersion
) -> None:
    """Both times stand in the refusal; nobody would ever take such a bundle (issue 5; row V12)."""
    twin.faults["tsa"] = fault
    with pytest.raises(Refused, match="the timestamp authority's clock is wrong: it says") as refused:
        sign_record(remote(twin, version=version), RECORD, claims())
    assert refused.value.reason == "time"
    assert str(refused.value.where).startswith(f"{twin.url}/tsa")
    assert twin.logs[version] == []


@pytest.mark.parametrize(
    ("service", "fault", "reason", "words"),
    [
        ("fulcio", "foreign", "certificate", "the certificate that it gave does not hold"),
        ("fulcio", "early", "certificate", "the certificate has run out already"),
        ("rekor", "foreign", "log_proof", "checkpoint"),
    ],
)
def test_answers_that_a_verifier_would_refuse_are_refused_where_they_are_signed(
    twin: Twin, service: Service, fault: Fault, reason: str, words: str
) -> None:
    """A certificate that no pinned log of certificates has, one of yesterday, a checkpoint of another log (V8, V12)."""
    twin.faults[service] = fault
    with pytest.raises(Refused, match=words) as refused:
        sign_record(remote(twin), RECORD, claims())
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "content",
    [
        b"DSSEv1 28 application/vnd.in-toto+json 2 {}",
        b"{}",
        b'{"_type": "https://in-toto.io/Statement/v1"}',
        canonical.dumps({"a": 1}),
        b"x" * (4 * 1024 * 1024 + 1),
    ],
)
def test_only_canonical_statements_are_signed_and_nothing_is_asked_for_anything_else(
    twin: Twin, content: bytes
) -> None:
    """Row V23: what could be wrapped as something else is never signed, with a deployment either."""
    trust = remote(twin)
    with pytest.raises(Refused) as refused:
        trust.sign(content)
    assert refused.value.reason == "statement"
    with pytest.raises(Refused):
        sign_statement(trust, content, statement.PREDICATE_TYPE)
    assert twin.asked == []


def test_a_statement_of_another_type_than_the_one_meant_is_not_signed(twin: Twin) -> None:
    """The caller says what it signs, and that is held against the bytes (row V17)."""
    stated = statement.build("x", RECORD, {}, statement.LOG_CHECKPOINT_TYPE)
    with pytest.raises(Refused) as refused:
        sign_statement(remote(twin), stated, statement.PREDICATE_TYPE)
    assert refused.value.reason == "predicate_type"
    bundle = sign_statement(remote(twin), stated, statement.LOG_CHECKPOINT_TYPE)
    assert parse(bundle).payload == stated


def test_no_cache_of_the_library_is_read_or_written(twin: Twin, nowhere: Path) -> None:
    """A root that lies in ~/.cache/sigstore-python is nobody's choice (attest 2: swapping it made a forgery verify)."""
    trust = remote(twin)
    verify(RECORD, sign_record(trust, RECORD, claims()), trust.root, trust.identity, trust.issuer)
    assert not [path for path in nowhere.rglob("*") if "sigstore" in path.name or "tuf" in path.name]


def test_the_signing_process_runs_nothing_that_lies_in_the_working_folder(
    twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever signs inside a stranger's folder does not import the stranger's modules."""
    (tmp_path / "json.py").write_text("raise SystemExit('imported')")
    (tmp_path / "attest").mkdir()
    (tmp_path / "attest/__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert remote(twin).identity == WORKFLOW


def test_the_signing_process_ends_with_its_trust(twin: Twin) -> None:
    """No process and no key outlives the object that they were made for."""
    trust = remote(twin)
    _ = trust.identity
    session = trust._session
    assert session is not None
    process = session._child._process
    assert process.poll() is None
    del session, trust
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is not None


def test_the_name_in_a_certificate_is_the_one_that_is_verified(twin: Twin) -> None:
    """A person's certificate has an address in it, a workflow's a URL; either is taken as it stands (row V2)."""
    for name, kind in ((PERSON, x509.RFC822Name), (WORKFLOW, x509.UniformResourceIdentifier)):
        (twin.folder / "token").write_text(twin.token(name))
        trust = remote(twin, TokenSource("file", str(twin.folder / "token")))
        bundle = sign_record(trust, RECORD, claims())
        certificate = x509.load_der_x509_certificate(parse(bundle).certificate)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert [type(one) for one in names] == [kind]
        for other in (f"{name}0", name[:-1]):
            with pytest.raises(Refused) as refused:
                verify(RECORD, bundle, trust.root, other, trust.issuer)
            assert refused.value.reason == "identity"


def test_a_config_that_sends_tokens_in_the_clear_or_says_too_little_is_refused(twin: Twin) -> None:
    """Tokens go over TLS or not over a network; unknown, double and missing parts are named with file and place."""
    value = json.loads(twin.trust_config())

    def changed(**parts: object) -> bytes:
        return json.dumps({**value, "signingConfig": {**value["signingConfig"], **parts}}).encode()

    service = {**value["signingConfig"]["caUrls"][0], "url": "http://fulcio.lab.example"}
    cases = {
        changed(caUrls=[service]): "not reached over https",
        changed(caUrls=[]): "No valid Fulcio",
        changed(tsaUrls=[], rekorTlogUrls=value["signingConfig"]["rekorTlogUrls"][1:]): "no timestamp authority",
        changed(mediaType="application/json"): "Input should be",
        json.dumps({**value, "more": 1}).encode(): "exactly mediaType, trustedRoot, signingConfig",
        json.dumps(value["trustedRoot"]).encode(): "not a client trust config",
        b'{"mediaType":1,"mediaType":2}': "stands twice",
        b"": "not JSON",
        b"[" * 100_000: "nested deeper",
    }
    for content, words in cases.items():
        with pytest.raises(Refused, match=words) as refused:
            TrustConfig.parse(content, "twin.json")
        assert refused.value.reason == "trust_root"
        assert str(refused.value.where).startswith("twin.json")
    with pytest.raises(Refused, match="No valid Rekor") as refused:
        remote(twin, content=twin.trust_config((2,)), version=1).refuse_unready()
    assert "--rekor-version" in str(refused.value.mend)


def test_a_config_of_another_deployment_than_the_pinned_one_signs_nothing(twin: Twin, tmp_path: Path) -> None:
    """The root is what is pinned; a config beside it that was swapped is found before a token leaves (V13, V14)."""
    with running(tmp_path / "other") as other:
        foreign = TrustConfig.parse(other.trust_config(), "other.json")
        own = TrustConfig.parse(twin.trust_config(), "twin.json")
        with pytest.raises(Refused, match="another root than the pinned one") as refused:
            RemoteTrust(pinned(own), foreign, TokenSource(), where="other.json")
        assert refused.value.reason == "trust_root"
        assert other.asked == []


def test_what_the_library_leaves_unread_in_an_entry_of_version_1_is_read(twin: Twin) -> None:
    """The entry's index and time are promised by the log; edited ones are refused (rows V9, V10, V11)."""
    trust = remote(twin, version=1)
    bundle = json.loads(sign_record(trust, RECORD, claims()))
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    promise = base64.b64encode(b"\x30\x06\x02\x01\x01\x02\x01\x01").decode()
    cases: list[tuple[dict[str, object], str]] = [
        ({"logIndex": "77777"}, "log_proof"),
        ({"integratedTime": str(int(entry["integratedTime"]) + 1)}, "log_proof"),
        ({"inclusionPromise": {"signedEntryTimestamp": promise}}, "log_proof"),
        ({"inclusionPromise": None}, "bundle"),
        ({"integratedTime": None}, "bundle"),
    ]
    for change, reason in cases:
        edited = {key: value for key, value in {**entry, **change}.items() if value is not None}
        bundle["verificationMaterial"]["tlogEntries"] = [edited]
        with pytest.raises(Refused) as refused:
            verify(RECORD, json.dumps(bundle).encode(), trust.root, WORKFLOW, twin.issuer)
        assert refused.value.reason in (reason, "certificate", "time"), change
