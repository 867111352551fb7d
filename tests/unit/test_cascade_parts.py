"""The cascade's parts alone: diffs in responses, stages and their joules, rules, the model stage, where it listens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from appliance.cli.main import run
from appliance.errors import HostRefused, InputRefused, UsageRefused
from appliance.solvers.cascade import client
from appliance.solvers.cascade.links import CascadeFailed, HttpCascade, RequestRefused, SocketCascade, is_answering
from appliance.solvers.cascade.messages import Resolve, Warm
from appliance.solvers.cascade.model import ModelStage
from appliance.solvers.cascade.reported import Answered, Unanswered, told
from appliance.solvers.cascade.rules import RuleStage, read_rules
from appliance.solvers.cascade.serving import on_socket
from appliance.solvers.cascade.staged import Cache, Identity, Said, StagedCascade, StageFailed
from appliance.solvers.definition import read_definition
from tests.cascade_stub import FENCED, PATCH, endless, silent, stub_socket
from tests.scripted_model import Say, ScriptedModel, Status

NOBODY = Identity("nobody")


# ------------------------------------------------------------------------------------------- diffs in responses


@pytest.mark.parametrize(
    ("response", "patch"),
    [
        (FENCED, PATCH),
        (PATCH, PATCH),
        (PATCH.rstrip("\n"), PATCH),
        (f"~~~~patch\n{PATCH}~~~~\n", PATCH),
        (f"```\n{PATCH}```", PATCH),
        (f"```diff\n{PATCH}", PATCH),
        (f"```python\nprint()\n```\n```diff\n{PATCH}```\n", PATCH),
        (f"```diff\n{PATCH}```\nand\n```diff\n{PATCH}```\n", PATCH + PATCH),
        (f"````diff\n{PATCH}+```\n````", PATCH + "+```\n"),
        ("I cannot.", None),
        ("```python\nprint()\n```", None),
        ("--- a rule\nand some text\n+++ not a file", None),
        ("", None),
    ],
)
def test_unified_diffs_are_found_in_fences_or_bare(response: str, patch: str | None) -> None:
    """All of them where there are many; nothing where there is none (row J17)."""
    assert client.patch_in(response) == patch


def test_a_hostile_response_is_read_in_one_sweep() -> None:
    """A hundred thousand fences that never close take no more steps than lines (row J17)."""
    assert client.patch_in("```diff\n~~~\n" * 100_000) is not None


def test_a_client_whose_words_are_none_told_no_answer() -> None:
    """Killed, cut off, or printing something else: there was no answer (row J17)."""
    for stdout, status in ((b"", 0), (b"{}", 0), (b'{"answer": 1}', 0), (b"", 137), (b"", None)):
        assert isinstance(told(stdout, status, 5.0), Unanswered), (stdout, status)
    whole = b'{"answer": "{\\"response\\": \\"x\\", \\"stage\\": \\"kv\\", \\"microjoules\\": 5}", "failed": null,'
    found = told(whole + b' "latencyMs": 1.5, "patch": "none", "patchProblem": null}', 0, 5.0)
    assert isinstance(found, Answered)
    assert (found.answer.microjoules, found.latency_ms) == (5, 1.5)


# ------------------------------------------------------------------------------------------- the staged cascade


class Fixed:
    """A stage that answers so."""

    def __init__(self, name: str, said: Said | None):
        self.name = name
        self._said = said

    def answer(self, prompt: str) -> Said | None:
        return self._said


class Broken:
    name = "neural"

    def answer(self, prompt: str) -> Said | None:
        raise StageFailed("out of order")


def ticking(step_ns: int) -> Iterator[int]:
    return count(0, step_ns)


def test_each_stage_is_charged_watts_by_its_own_wall_time() -> None:
    """2 ms at 20 W are 40,000 uJ, for each stage that was tried; labelled an estimate (rows J17, J35)."""
    ticks = ticking(2_000_000)
    stages = [Fixed("kv", None), Fixed("neural", Said("four"))]
    cascade = StagedCascade(stages, NOBODY, watts=20.0, clock_ns=lambda: next(ticks))
    answer = cascade.resolve(Resolve(id="a", prompt="2 + 2"))
    assert [(tier.stage, tier.microjoules) for tier in answer.tiers] == [
        ("cache", 40_000), ("kv", 40_000), ("neural", 40_000)
    ]  # fmt: skip
    assert (answer.microjoules, answer.provenance) == (120_000, "estimator")
    assert cascade.health().metering == "estimator wall/1: 20 W (given) x wall time of each stage"


def test_the_cache_forgets_what_was_longest_not_asked_for() -> None:
    """1,025 prompts in a cache of 1,024: the first one is gone, the second was asked again and stays (row E23)."""
    cache = Cache(1024)
    for number in range(1024):
        cache.keep(f"p{number}", "x")
    assert cache.answer("p0") is not None
    cache.keep("p1024", "x")
    assert cache.answer("p1") is None
    assert (cache.answer("p0"), cache.answer("p1024")) == (Said("x"), Said("x"))


def test_without_a_cache_nothing_is_remembered() -> None:
    """`--cached 0`: every pass is cold (row J17)."""
    cascade = StagedCascade([Fixed("kv", Said("x"))], NOBODY, cached=0)
    stages = [cascade.resolve(Resolve(id="a", prompt="p")).stage for _ in range(2)]
    assert (stages, cascade.health().stages) == (["kv", "kv"], ("kv",))


def test_a_stage_that_fails_ends_the_request_in_words() -> None:
    """No later stage is asked in its place, and nothing is cached (row J17)."""
    cascade = StagedCascade([Broken(), Fixed("late", Said("x"))], NOBODY)
    for _ in range(2):
        with pytest.raises(RequestRefused, match="stage neural: out of order"):
            cascade.resolve(Resolve(id="a", prompt="p"))
    assert cascade.warm(Warm(prompts=("p", "q"))).warmed == 0


# ------------------------------------------------------------------------------------------- rules


def rules(folder: Path, text: str) -> RuleStage:
    (folder / "rules.toml").write_text(text)
    return read_rules(folder / "rules.toml")


def test_the_first_pattern_that_is_found_answers(tmp_path: Path) -> None:
    """With the file beside the TOML, or with its own words (row J17)."""
    (tmp_path / "a.patch").write_text(PATCH)
    stage = rules(
        tmp_path,
        '[[rule]]\npattern = "off.by.one"\npatch = "a.patch"\n[[rule]]\npattern = "one"\nresponse = "1"\n',
    )
    assert stage.answer("An OFF-BY-ONE, mend it") == Said(PATCH)
    assert stage.answer("one") == Said("1")
    assert stage.answer("two") is None


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "rule", "required"),
        ("rule = []\n", "rule", "at least 1"),
        ('[[rule]]\npattern = "a"\n', "rule[0]", "both or neither"),
        ('[[rule]]\npattern = "a"\npatch = "x"\nresponse = "y"\n', "rule[0]", "both or neither"),
        ('[[rule]]\npattern = "("\nresponse = "y"\n', "rule[0].pattern", "not a regular expression"),
        ('[[rule]]\npattern = "a"\npatch = "../x"\n', "rule[0].patch", "beside the TOML"),
        ('[[rule]]\npattern = "a"\npatch = "missing"\n', "rule[0].patch", "No such file"),
        ('[[rule]]\npattern = "a"\nresponse = "y"\nmore = 1\n', "rule[0].more", "Extra"),
        ("[[rule]\n", "rules.toml:1", "Expected"),
    ],
)
def test_a_rule_that_is_none_is_refused_by_file_and_key(tmp_path: Path, text: str, place: str, says: str) -> None:
    """One refusal a defect (row J17)."""
    with pytest.raises(InputRefused) as refused:
        rules(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "rules.toml"))
    assert place in str(refused.value)
    assert says in str(refused.value)


# ------------------------------------------------------------------------------------------- the model stage


def test_a_model_is_asked_over_an_openai_compatible_url() -> None:
    """With its key and its name; its tokens are passed on (rows J17, E38)."""
    with ScriptedModel(Say(FENCED), key="secret") as model:
        said = ModelStage(f"{model.url}/v1", "scripted", "secret", seconds=20).answer("mend it")
        (asked,) = model.asked
    assert said.response == FENCED
    assert said.usage is not None
    assert said.usage.output_tokens > 0
    assert asked.json["model"] == "scripted"
    assert asked.json["messages"][-1] == {"role": "user", "content": "mend it"}


@pytest.mark.parametrize(("status", "key"), [(500, "secret"), (429, "secret"), (200, "wrong")])
def test_a_model_that_does_not_answer_fails_its_stage(status: int, key: str) -> None:
    """Errors, and a key that is none; the key stands in no word of it (rows J17, E38)."""
    faults = [Status(status)] if status != 200 else []
    with ScriptedModel(Say("x"), key="secret", faults=faults) as model, pytest.raises(StageFailed) as failed:
        ModelStage(f"{model.url}/v1", "scripted", key, seconds=20).answer("p")
    assert "answered" in str(failed.value)
    assert key not in str(failed.value)


def test_a_model_that_is_not_there_or_silent_fails_its_stage() -> None:
    """Refused connections and timeouts are told as such (rows J17, E38)."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        with pytest.raises(StageFailed, match="did not answer"):
            ModelStage(f"http://127.0.0.1:{port}/v1", "m", seconds=20).answer("p")
        bound.listen()
        with pytest.raises(StageFailed, match="timed out"):
            ModelStage(f"http://127.0.0.1:{port}/v1", "m", seconds=0.1).answer("p")


@pytest.mark.parametrize("url", ["ftp://h/v1", "h:80", "http:///v1", "http://u:p@h/v1", "http://h/v1?a=b"])
def test_a_model_url_that_is_none_is_refused(url: str) -> None:
    """Before anything is asked (row J17)."""
    with pytest.raises(UsageRefused):
        ModelStage(url, "m")


# ------------------------------------------------------------------------------------------- where it listens


def echo() -> StagedCascade:
    return StagedCascade([Fixed("kv", Said("x"))], NOBODY)


def test_a_socket_that_was_left_behind_is_taken_and_one_that_is_answered_is_not(tmp_path: Path) -> None:
    """And it is gone when the server is (row J17)."""
    place = tmp_path / "c.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(place))
    left.close()
    with on_socket(place, echo()):
        assert is_answering(place)
        assert place.stat().st_mode & 0o777 == 0o666
        with pytest.raises(HostRefused, match="another program answers there"), on_socket(place, echo()):
            pass
        assert SocketCascade(place, seconds=20).health().name == "nobody"
    assert not place.exists()


def test_a_file_in_the_sockets_place_is_left_alone(tmp_path: Path) -> None:
    """Nothing of another's is removed (row J17)."""
    (tmp_path / "c.sock").write_text("mine")
    with pytest.raises(HostRefused, match="something else lies there"), on_socket(tmp_path / "c.sock", echo()):
        pass
    assert (tmp_path / "c.sock").read_text() == "mine"
    with pytest.raises(HostRefused, match="no such folder"), on_socket(tmp_path / "no/c.sock", echo()):
        pass


def test_a_socket_may_lie_deeper_than_an_address_is_long(tmp_path: Path) -> None:
    """107 bytes are all that the kernel's address takes (row J17)."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with on_socket(deep / "c.sock", echo()):
        assert SocketCascade(deep / "c.sock", seconds=20).resolve(Resolve(id="a", prompt="p")).response == "x"


def test_more_clients_than_places_wait_for_their_turn(tmp_path: Path) -> None:
    """Sixty at a time are all answered, one after another (row J17)."""
    found: list[str] = []
    with on_socket(tmp_path / "c.sock", echo()):

        def ask() -> None:
            found.append(SocketCascade(tmp_path / "c.sock", seconds=60).resolve(Resolve(id="a", prompt="p")).response)

        threads = [threading.Thread(target=ask) for _ in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == ["x"] * 60


def test_an_endless_and_a_silent_cascade_end_for_whoever_asks(tmp_path: Path) -> None:
    """Bounded in bytes, and in seconds where there is a bound (row J17)."""
    for answer, seconds, code in ((endless, 20.0, "too_long"), (silent, 0.2, "silent")):
        with stub_socket(tmp_path / "c.sock", answer), pytest.raises(CascadeFailed) as failed:
            SocketCascade(tmp_path / "c.sock", seconds=seconds).resolve(Resolve(id="a", prompt="p"))
        assert failed.value.code == code


def test_an_http_cascade_is_a_plain_url() -> None:
    """Nothing else than http:// to a host (row J17)."""
    for url in ("https://h", "h", "http://u@h", "http://h?x"):
        with pytest.raises(InputRefused):
            HttpCascade(url)


# ------------------------------------------------------------------------------------------- words


def test_a_cascades_toml_names_no_program(tmp_path: Path) -> None:
    """What runs in its trials is ours; the socket is no key of it (row J17)."""
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nkind = "cascade"\nversion = "1"\n')
    found = read_definition(path)
    assert (found.kind, found.argv, found.needs_model, found.built_in) == ("cascade", (), False, True)
    path.write_text('name = "mine"\nkind = "cascade"\nmodel = "required"\n')
    assert read_definition(path).needs_model
    for key in ('argv = ["a"]', 'socket = "/run/c.sock"', 'wire = "gemini"', 'stdin = "prompt"'):
        path.write_text(f'name = "mine"\nkind = "cascade"\n{key}\n')
        with pytest.raises(InputRefused, match=key.split()[0]):
            read_definition(path)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["run", "--suite", "smoke", "--solver", "cascade", "--dry-run"], "--cascade-socket: solver cascade"),
        (
            ["run", "--suite", "smoke", "--solver", "noop", "--dry-run", "--cascade-socket", "c.sock"],
            "no solver here is a cascade",
        ),
        (["cascade", "serve"], "nowhere to listen"),
        (["cascade", "serve", "--socket", "c.sock"], "no stage that could answer"),
        (["cascade", "serve", "--socket", "c.sock", "--model-url", "http://h"], "a server and a name"),
        (["cascade", "serve", "--http", "0.0.0.0:1", "--model-url", "http://h", "--model", "m"], "loopback"),
        (
            ["cascade", "serve", "--socket", "c", "--watts", "nan", "--model-url", "http://h", "--model", "m"],
            "no number of watts",
        ),
    ],
)
def test_words_that_do_not_fit_end_with_status_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything runs or listens (row J17)."""
    assert run(words) == 2
    assert says in capsys.readouterr().err


def test_asking_nobody_ends_with_status_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the socket (row J17)."""
    assert run(["cascade", "ask", str(tmp_path / "c.sock")]) == 4
    assert f"{tmp_path / 'c.sock'}: there is no socket" in capsys.readouterr().err
