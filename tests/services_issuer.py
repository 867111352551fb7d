"""A loopback OpenID provider for the real services: three issuers, each with the token shape of its kind.

`/email` names a person, `/github` a workflow of GitHub Actions, `/gitlab` a pipeline of GitLab. It mints for whoever
asks, so nothing outside a test may trust it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

PERSON: Final = "lab@example.com"
WORKFLOW: Final = "https://github.com/example/agent/.github/workflows/bench.yml@refs/heads/main"
PIPELINE: Final = "https://gitlab.com/example/agent//.gitlab-ci.yml@refs/heads/main"
RUNNER_TOKEN: Final = "runner-token"
_SHA: Final = "0" * 40


def claims(kind: str, subject: str) -> dict[str, Any]:
    """What Fulcio needs of a token of each kind; `subject` is the address of a person."""
    match kind:
        case "email":
            return {"sub": subject, "email": subject, "email_verified": True}
        case "github":
            return {
                "sub": "repo:example/agent:ref:refs/heads/main",
                "repository": "example/agent",
                "repository_id": "1",
                "repository_owner": "example",
                "repository_owner_id": "2",
                "repository_visibility": "public",
                "workflow": "bench",
                "job_workflow_ref": WORKFLOW.removeprefix("https://github.com/"),
                "workflow_ref": WORKFLOW.removeprefix("https://github.com/"),
                "job_workflow_sha": _SHA,
                "workflow_sha": _SHA,
                "sha": _SHA,
                "ref": "refs/heads/main",
                "event_name": "push",
                "run_id": "3",
                "run_attempt": "1",
                "runner_environment": "github-hosted",
            }
        case "gitlab":
            return {
                "sub": "project_path:example/agent:ref_type:branch:ref:main",
                "project_path": "example/agent",
                "project_id": "1",
                "project_visibility": "public",
                "namespace_path": "example",
                "namespace_id": "2",
                "pipeline_source": "push",
                "pipeline_id": "3",
                "ci_config_ref_uri": PIPELINE.removeprefix("https://"),
                "ci_config_sha": _SHA,
                "job_id": "4",
                "ref": "main",
                "ref_type": "branch",
                "sha": _SHA,
                "runner_environment": "gitlab-hosted",
                "runner_id": 5,
            }
        case _:
            raise KeyError(kind)


KINDS: Final = ("email", "github", "gitlab")


def minted_by(url: str) -> str:
    """A line for a shell: a token of the issuer at `url`, and nothing beside it."""
    return f"curl -s {url}/mint | cut -d '\"' -f 4"


class Issuer:
    """Serves until `stop`. `address` is http://127.0.0.1:PORT."""

    def __init__(self, port: int = 0):
        self._key = rsa.generate_private_key(65537, 2048)
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def start(self) -> Issuer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def serve(self) -> None:
        self._server.serve_forever()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, kind: str = "email") -> str:
        return f"{self.address}/{kind}"

    def token(self, kind: str = "email", subject: str = PERSON, **changes: Any) -> str:
        """A signed token, good for five minutes but for `changes` of its claims."""
        now = int(time.time())
        moments = {"iat": now, "nbf": now - 1, "exp": now + 300}
        content = {"iss": self.url(kind), "aud": "sigstore", **moments, **claims(kind, subject), **changes}
        return jwt.encode(content, self._key, "RS256", headers={"kid": "k1"})

    def answer(self, path: str, query: dict[str, str], authorization: str) -> tuple[int, Any]:
        """Status and JSON of a GET; a redirection's address as text."""
        kind, _, rest = path.strip("/").partition("/")
        if kind not in KINDS:
            return 404, {}
        answers: dict[str, Callable[[], tuple[int, Any]]] = {
            ".well-known/openid-configuration": lambda: (200, self._discovery(kind)),
            "jwks": lambda: (200, {"keys": [self._public()]}),
            "mint": lambda: (200, {"value": self.token(kind, query.get("subject", PERSON))}),
            "runner": lambda: self._for_runner(kind, query["audience"], authorization),
            "auth": lambda: (302, self._agreed(query)),
        }
        return answers[rest]() if rest in answers else (404, {})

    def exchange(self, kind: str, form: dict[str, str]) -> tuple[int, Any]:
        """The token for a code of `/auth`, by PKCE (RFC 7636 4.6)."""
        asked = self._codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if asked is None or asked["code_challenge"] != base64.urlsafe_b64encode(digest).rstrip(b"=").decode():
            return 400, {"error": "invalid_grant"}
        token = self.token(kind, nonce=asked.get("nonce", ""))
        return 200, {"access_token": token, "id_token": token, "token_type": "Bearer"}

    def _for_runner(self, kind: str, audience: str, authorization: str) -> tuple[int, Any]:
        """What ACTIONS_ID_TOKEN_REQUEST_URL names."""
        if authorization.lower() != f"bearer {RUNNER_TOKEN}":
            return 401, {"message": "not this runner"}
        return 200, {"value": self.token(kind, aud=audience)}

    def _agreed(self, query: dict[str, str]) -> str:
        """Everybody who has a browser on this host is who they say."""
        code = secrets.token_urlsafe(16)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def _discovery(self, kind: str) -> dict[str, Any]:
        url = self.url(kind)
        return {
            "issuer": url,
            "jwks_uri": f"{url}/jwks",
            "authorization_endpoint": f"{url}/auth",
            "token_endpoint": f"{url}/token",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _public(self) -> dict[str, str]:
        numbers = self._key.public_key().public_numbers()
        return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1", "n": _text(numbers.n), "e": _text(numbers.e)}


def _text(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8, "big")).rstrip(b"=").decode()


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = dict(parse_qsl(url.query))
            self._send(*issuer.answer(url.path, query, self.headers.get("authorization", "")))

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
            kind, _, rest = self.path.strip("/").partition("/")
            self._send(*(issuer.exchange(kind, form) if kind in KINDS and rest == "token" else (404, {})))

        def _send(self, status: int, content: Any) -> None:
            moved = status == 302
            body = b"" if moved else json.dumps(content).encode()
            self.send_response(status)
            if moved:
                self.send_header("location", content)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextlib.contextmanager
def answering(respond: Callable[[bytes], tuple[int, str, bytes]]) -> Iterator[str]:
    """A service on loopback that answers every POST by status, content type and body; its address."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            status, kind, body = respond(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
