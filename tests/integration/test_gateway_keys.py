"""A key is planted wherever one can be, and every byte that is written is searched for it (row M16)."""

from __future__ import annotations

import base64
import gzip
import json
import logging
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from appliance.gateway.exchange import WireForm
from appliance.gateway.upstreams.provider import provider_upstream
from tests.door_bench import (
    FORMS,
    KEY,
    agent_of,
    ask,
    body_of,
    cassette_of,
    drained,
    gateway_of,
    provider_of,
    raw,
    request_of,
    target_of,
)
from tests.scripted_model import ScriptedModel, Status

_AGENTS = "sk-agents-own-J8dK2mX0vB7nQ4wR"
_COOKIE = "cf-cookie-3Hs9Lq1Zt6Yb0Pd5"


class _Indiscreet(BaseHTTPRequestHandler):
    """A provider that says the key back: in its headers, in its body, and cut in two."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        key = self.headers["x-api-key"]
        said = json.dumps(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": [{"type": "text", "text": f"You sent {key}."}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
                "model": key,
            }
        )
        status = 401 if self.headers.get("x-please-refuse") else 200
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("set-cookie", f"session={_COOKIE}")
        self.send_header("request-id", f"req-{key}")
        self.send_header("x-api-key", key)
        self.send_header("www-authenticate", f'Bearer realm="{key}"')
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        middle = said.index(key) + 9
        for piece in (said[:middle], said[middle:]):
            self.wfile.write(piece.encode())
            self.wfile.flush()
            threading.Event().wait(0.05)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def indiscreet() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Indiscreet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def _written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every byte below, as it lies and unpacked."""
    for path in sorted(folder.rglob("*")):
        yield str(path), str(path).encode()
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield str(path), content
        if path.name.endswith(".tar.gz"):
            yield f"{path} unpacked", gzip.decompress(content)
            with tarfile.open(path) as tar:
                for member in tar:
                    stream = tar.extractfile(member)
                    yield f"{path} {member.name}", stream.read() if stream else b""


def _search(folder: Path, *secrets: str) -> None:
    looked = 0
    for where, content in _written(folder):
        looked += len(content)
        for secret in secrets:
            for spelt in (secret.encode(), base64.b64encode(secret.encode())):
                assert spelt not in content, f"{secret} in {where}"
    assert looked > 1000


@pytest.mark.parametrize("form", FORMS)
def test_no_key_is_in_anything_that_is_written(
    form: WireForm, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Row M16: keys of the host and of the agent, in headers, query, user of a URL, and cookies, of good and of bad
    exchanges; cassette, transcript, logs of every library, and what the agent itself gets to see."""
    caplog.set_level(logging.DEBUG)
    planted = {
        "authorization": f"Bearer {_AGENTS}", "x-api-key": _AGENTS, "x-goog-api-key": _AGENTS, "api-key": _AGENTS,
        "cookie": f"a={_AGENTS}", "proxy-authorization": _AGENTS, "x-auth-token": _AGENTS, "x-session-token": _AGENTS,
    }  # fmt: skip
    with (
        ScriptedModel(key=KEY, faults=[None, Status(500)]) as model,
        gateway_of(model, form, folder=tmp_path) as gateway,
    ):  # type: ignore[arg-type]
        door = gateway.open("a")
        target = target_of(form)
        join = "&" if "?" in target else "?"
        body = json.dumps(body_of(form)).encode()
        # By hand: every client of HTTP logs the URLs that it is given.
        for method, path, content in (
            ("POST", f"{target}{join}key={_AGENTS}&access_token={_AGENTS}", body),
            ("POST", target, body),
            ("POST", f"/v1/x?api_key={_AGENTS}", body),
            ("POST", target, f"no json {KEY}".encode()),
            ("GET", f"/?key={_AGENTS}", b""),
            ("GET", f"http://user:{_AGENTS}@host/x", b""),
        ):
            lines = [f"{method} {path} HTTP/1.1", "host: a", "connection: close", f"content-length: {len(content)}"]
            lines += [f"{name}: {value}" for name, value in planted.items()]
            with raw(door) as agent:
                agent.sendall("\r\n".join([*lines, "", ""]).encode() + content)
                assert drained(agent).startswith(b"HTTP/1.1 ")
        traffic = door.finish()
        assert traffic.exchanges == 6
        assert len(model.asked) == 3
        _search(tmp_path, KEY, _AGENTS)
        assert all(_AGENTS not in str(seen.headers) + seen.target for seen in model.saw)
    assert KEY not in repr(traffic) and _AGENTS not in repr(traffic)
    out, err = capfd.readouterr()
    for secret in (KEY, _AGENTS):
        assert secret not in caplog.text + out + err


@pytest.mark.parametrize("refuse", [False, True])
def test_a_key_that_a_provider_says_back_reaches_neither_the_agent_nor_the_disk(
    indiscreet: str, tmp_path: Path, refuse: bool
) -> None:
    """Row M16: also where it comes in two pieces; its place is blacked out, so that nothing gets shorter."""
    upstream = provider_upstream("anthropic", url=indiscreet, environment={"ANTHROPIC_API_KEY": KEY})
    with gateway_of(None, upstream=upstream, folder=tmp_path) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = ask(agent, headers={"x-please-refuse": "1"} if refuse else {})
        traffic = door.finish()
        _search(tmp_path, KEY, _COOKIE)
    assert got.status_code == (401 if refuse else 200)
    assert got.json()["content"][0]["text"] == f"You sent {'*' * len(KEY)}."
    assert KEY not in str(got.headers) and "set-cookie" not in got.headers
    assert got.headers["request-id"] == f"req-{'*' * len(KEY)}"
    assert traffic.exchanges == 1


def test_what_cannot_be_reached_is_said_without_its_key(tmp_path: Path) -> None:
    """Row M16: in the words of an error, which stand in the record."""
    with ScriptedModel(key=KEY) as model:
        url = model.url
    upstream = provider_upstream("openai", url=f"{url}/v1", environment={"OPENAI_API_KEY": KEY})
    with gateway_of(None, "openai-chat", upstream=upstream, folder=tmp_path) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            got = ask(agent, "openai-chat")
        traffic = door.finish()
        _search(tmp_path, KEY)
    assert KEY not in got.text + repr(traffic)


def test_an_agent_that_knows_the_key_is_given_away_by_nothing_that_is_kept(tmp_path: Path) -> None:
    """Row M16: somebody left it in the task's files, and the agent sends them to the model."""
    with ScriptedModel(key=KEY) as model, gateway_of(model, folder=tmp_path) as gateway:
        door = gateway.open("a")
        with raw(door) as agent:
            agent.sendall(request_of(text=f"I found {KEY} in .env", head=f"x-note: {KEY}\r\nconnection: close\r\n"))
            agent.recv(65536)
        door.finish()
        _search(tmp_path, KEY)
        assert KEY.encode() not in model.asked[0].body
        assert model.asked[0].header("x-note") == "*" * len(KEY)


def test_a_placeholder_for_a_key_takes_nothing_out_of_what_is_kept(tmp_path: Path) -> None:
    """Row M14: `x` for a server without keys is no secret: else every x would be gone, and no replay held."""
    with ScriptedModel(key="x") as model:
        with gateway_of(None, upstream=provider_of(model, key="x"), folder=tmp_path) as gateway:
            door = gateway.open("a")
            with agent_of(door) as agent:
                assert ask(agent, text="six boxes").status_code == 200
            cassette = cassette_of(door.finish().cassette, tmp_path / "read")
        assert b"six boxes" in cassette.exchanges[0].asked.body
