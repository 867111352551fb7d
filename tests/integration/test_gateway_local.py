"""A model server of our own on a Unix socket, providers over TLS, and whoever watches exchanges."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from appliance.gateway.upstreams.llama import LlamaUpstream
from appliance.gateway.upstreams.provider import provider_upstream
from tests.door_bench import KEY, agent_of, ask, cassette_of, gateway_of, raw, request_of
from tests.scripted_model import Drip, Say, ScriptedModel


class _Watch:
    """Tells its thread and what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self.threads: set[str] = set()
        self.most = 0

    def began(self, order: int) -> None:
        self.threads.add(threading.current_thread().name)
        self.told.append(("began", order))
        under_way = sum(1 if moment == "began" else -1 for moment, _ in self.told)
        self.most = max(self.most, under_way)

    def ended(self, order: int) -> None:
        self.told.append(("ended", order))


@pytest.mark.parametrize("form", ["openai-chat", "openai-responses", "anthropic"])
def test_a_local_server_answers_on_its_socket_in_the_forms_that_it_speaks(form: str, tmp_path: Path) -> None:
    """Row M13: no key, no network, and no price."""
    path = tmp_path / "llama.sock"
    with (
        ScriptedModel(Say("Local."), llama=True, unix=path) as model,
        gateway_of(None, upstream=LlamaUpstream(path), provider="local") as gateway,
    ):
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent, form).status_code == 200  # type: ignore[arg-type]
            assert ask(agent, form, stream=True).status_code == 200  # type: ignore[arg-type]
        traffic = door.finish()
        assert all("authorization" not in dict(seen.headers) for seen in model.saw)
    assert traffic.usage is not None and traffic.usage.input_tokens > 0
    assert (traffic.cost_usd, traffic.answered) == (None, 2)


def test_one_slot_answers_one_exchange_at_a_time_over_all_trials_and_waiting_is_no_latency(tmp_path: Path) -> None:
    """Row M10: an exchange's tries begin when it has the slot, its own beginning is its arrival."""
    path, watch = tmp_path / "llama.sock", _Watch()

    def one(door: object) -> None:
        with agent_of(door) as agent:  # type: ignore[arg-type]
            assert ask(agent, "openai-chat", stream=True).status_code == 200

    with (
        ScriptedModel(Say("word " * 20), unix=path, always=Drip(0.005)),
        gateway_of(None, upstream=LlamaUpstream(path), provider="local") as gateway,
    ):
        doors = [gateway.open("a", watch=watch), gateway.open("b", watch=watch)]
        threads = [threading.Thread(target=one, args=(door,)) for door in doors * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        traffics = [door.finish() for door in doors]
        recorded = [
            one.exchange
            for number, traffic in enumerate(traffics)
            for one in cassette_of(traffic.cassette, tmp_path / str(number)).exchanges
        ]
    assert watch.most == 1
    assert len(recorded) == 6
    waited = sorted(one.tries[0].started_ms - one.started_ms for one in recorded)
    assert waited[-1] > waited[0]


def test_a_slot_is_given_back_by_an_agent_that_leaves(tmp_path: Path) -> None:
    """Row M10: whoever waits behind it is answered."""
    path = tmp_path / "llama.sock"
    with (
        ScriptedModel(Say("word " * 500), unix=path, faults=[Drip(1)]) as model,
        gateway_of(None, upstream=LlamaUpstream(path), provider="local") as gateway,
    ):
        door = gateway.open("a")
        with raw(door) as leaving:
            leaving.sendall(request_of("openai-chat", stream=True))
            while not model.asked:
                time.sleep(0.005)
        with agent_of(door) as agent:
            assert ask(agent, "openai-chat").status_code == 200


def test_a_watch_is_told_around_the_model_s_part_of_each_exchange_and_of_no_other(tmp_path: Path) -> None:
    """Row D5: on a thread that is not the loop's, in turn; of every beginning its end, before the trial's."""
    watch = _Watch()
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a", watch=watch)
        with agent_of(door) as agent:
            ask(agent)
            agent.get("/v1/models")
            ask(agent)
        door.finish()
    assert watch.told == [("began", 0), ("ended", 0), ("began", 2), ("ended", 2)]
    assert all("watch" in name for name in watch.threads)


def test_the_model_is_asked_once_the_watch_knows_and_the_trial_ends_once_it_knows_all() -> None:
    """Row D5: a window that opens or closes late would hold another exchange's energy."""

    class _Slow(_Watch):
        def began(self, order: int) -> None:
            time.sleep(0.2)
            self.told.append(("asked before", len(model.asked)))

        def ended(self, order: int) -> None:
            time.sleep(0.2)
            super().ended(order)

    watch = _Slow()
    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a", watch=watch)
        with agent_of(door) as agent:
            ask(agent)
        door.finish()
        assert watch.told == [("asked before", 0), ("ended", 0)]


def test_a_watch_that_fails_is_not_silent() -> None:
    """A bug of ours keeps its traceback and becomes no score."""

    class _Broken(_Watch):
        def ended(self, order: int) -> None:
            raise RuntimeError("no window")

    with ScriptedModel(key=KEY) as model, gateway_of(model) as gateway:
        door = gateway.open("a", watch=_Broken())
        with agent_of(door) as agent:
            ask(agent)
        with pytest.raises(RuntimeError, match="no window"):
            door.finish()


class _Tls(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        said = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "tls"}, "finish_reason": "stop"}]}
        body = json.dumps(said | {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A server with a certificate of its own, which is its authority too."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    authority = tmp_path / "ca.pem"
    authority.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair = tmp_path / "pair.pem"
    pair.write_bytes(
        authority.read_bytes()
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{server.server_address[1]}/v1", authority
    server.shutdown()
    server.server_close()


def test_a_provider_s_certificate_is_checked_against_the_machine_s_authorities(
    tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row M13: over https; a key goes to nobody who cannot show who he is."""
    url, authority = tls
    with gateway_of(None, "openai-chat", upstream=provider_upstream("compatible", url=url)) as gateway:
        door = gateway.open("a")
        with agent_of(door) as agent:
            assert ask(agent, "openai-chat").status_code == 503
        assert "CERTIFICATE_VERIFY_FAILED" in (door.finish().detail or "")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    with (
        gateway_of(None, "openai-chat", upstream=provider_upstream("compatible", url=url)) as gateway,
        agent_of(gateway.open("a")) as agent,
    ):
        assert ask(agent, "openai-chat").json()["choices"][0]["message"]["content"] == "tls"
