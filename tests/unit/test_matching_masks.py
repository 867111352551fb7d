"""The rules of masks-v1, each on what programs really print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.gateway.mask_rules import AGENT_ID, CALL_ID, RULES
from appliance.gateway.masks import Masker, mask_text, masked_value, parsed, taken_apart
from appliance.gateway.matching import Match
from tests.cassette_builder import asked, replay, route

MASKED = [
    # qwen-code 0.15.10: the second request's tool result and the prompt
    ("Exit Code: 0\nSignal: 0\nProcess Group PGID: 17382", "Exit Code: 0\nSignal: 0\nProcess Group PGID: <pid>"),
    ("Background PIDs: 123, 124", "Background PIDs: <pid>, <pid>"),
    ("Today's date is Monday, November 30, 2026 (formatted", "Today's date is <date> (formatted"),
    # claude-code 2.1.332, codex 0.171.0, opencode 1.18.33, gemini-cli 0.61.0
    ('"session_id":"8a4ec680-7fd6-41df-aef7-33fb4057c895"', '"session_id":"<uuid>"'),
    ("2026-11-30T05:25:29.532Z", "<date>"),
    ("ses_2a7f1c9bdfffeXk3Yq9ZtPq4Ab", "<session-id>"),
    (
        "cc_version=2.1.332.abc; cc_entrypoint=cli; cch=0a1b2;",
        "cc_version=2.1.332.abc; cc_entrypoint=cli; cch=<request-hash>;",
    ),
    ("run_shell_command-1733000000000-0ab12f", "<call-id>"),
    ("run_shell_command_1796068004268_0", "<call-id>"),
    ("Chunk ID: 4a96f3\nWall time: 0.0123 seconds", "Chunk ID: <chunk-id>\nWall time: <duration>"),
    ("http://127.0.0.1:48466/v1 on port 32768", "http://127.0.0.1:<port>/v1 on port <port>"),
    ("<current_date>2026-11-30</current_date><t>12:34:56<br>", "<current_date><date></current_date><t><clock><br>"),
    (
        "sessions/2026/11/30/rollout-2026-11-30T05-25-29-8a4ec680-7fd6-41df-aef7-33fb4057c895.jsonl",
        "sessions/<date>/rollout-<date>-<uuid>.jsonl",
    ),
    # date, in the forms of programs
    ("Mon Nov 30 19:12:18 UTC 2026", "<date>"),
    ("Mon, 30 Nov 2026 19:12:18 GMT", "<date>"),
    ("Mon Nov 30 2026 19:12:18 GMT+0000 (Coordinated Universal Time)", "<date>"),
    ("Nov 3, 2026 and 3 November 2026", "<date> and <date>"),
    ("2026-11-30 05:25:29,532 INFO", "<date> INFO"),
    ("11/30/2026, 7:12:18 PM", "<date>"),
    ("31.12.2026", "<date>"),
    ("built 2026/11/30", "built <date>"),
    ("at 19:12:18.123456 or 7:12:18 pm", "at <clock> or <clock>"),
    ("1733000000.1234 1733000000 1733000000123", "<epoch> <epoch> <epoch>"),
    # ls -la, GNU and BusyBox
    (
        "total 12\ndrwxr-xr-x 2 user user 4096 Nov 30 19:04 .\n-rw-r--r-- 1 user user  149 Jan  2  2026 a.py\n",
        "total <ls-times>\ndrwxr-xr-x 2 user user <ls-times> .\n-rw-r--r-- 1 user user  149 <ls-times> a.py\n",
    ),
    (
        '{"output":"total 8\\n-rw-r--r-- 1 a a 12 Nov 30 19:04 x.py\\n"}',
        '{"output":"total <ls-times>\\n-rw-r--r-- 1 a a 12 <ls-times> x.py\\n"}',
    ),
    ("-rw-r--r-- 1 a a 12 2026-11-30 19:04 x.py", "-rw-r--r-- 1 a a 12 <date> x.py"),
    ("[1] 17382\n", "[1] <pid>\n"),
    (
        "/tmp/tmpab12cd34/x /tmp/tmp.aB3dE5fG7h/ /tmp/sess-1a2b3c4d",
        "/tmp/<temp-path>/x /tmp/<temp-path>/ /tmp/<temp-path>",
    ),
    (
        "PATH=/home/bench/.codex/tmp/arg0-linux/codex-arg0035Dzr:/bin",
        "PATH=/home/bench/.codex/tmp/arg0-linux/codex-arg0<temp-path>:/bin",
    ),
    # mini-swe-agent: what a tool gave as JSON within a text
    (
        r'{"output": "billing\nPID 23\nLinux bench 6.18.5 x86_64\nMon Nov 30 19:12:18 UTC 2026\n[1] 41\n"}',
        r'{"output": "billing\nPID <pid>\nLinux <kernel> x86_64\n<date>\n[1] <pid>\n"}',
    ),
    (r'"{\"out\": \"ok\\t0.003s\\n12:34:56\\n\"}"', r'"{\"out\": \"ok\\t<duration>\\n<clock>\\n\"}"'),
    ("user@abc123def456:/workspace$ ls", "user@<host>:/workspace$ ls"),
    ("Hostname: abc123def456", "Hostname: <host>"),
    # uname -a; mini-swe-agent's template; Python's platform.platform() in aider's prompt
    (
        "Linux abc123 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01) x86_64 GNU/Linux",
        "Linux <kernel> x86_64 GNU/Linux",
    ),
    ("Linux 5.15.0-91-generic #101-Ubuntu SMP Tue Nov 14 13:30:08 UTC 2023 x86_64", "Linux <kernel> x86_64"),
    ("OS Version: Linux 5.15.0-1052-aws", "OS Version: Linux <kernel>"),
    ("Platform: Linux-5.15.0-91-generic-x86_64-with-glibc2.36", "Platform: Linux-<kernel>-x86_64-with-glibc2.36"),
    # test runners and time
    ("== 2 passed in 0.05s ==", "== 2 passed in <duration> =="),
    ("5 passed in 61.23s (0:01:01)", "5 passed in <duration>"),
    ("Ran 3 tests in 0.001s", "Ran 3 tests in <duration>"),
    ("ok  \tpkg/sum\t0.003s", "ok  \tpkg/sum\t<duration>"),
    ("--- PASS: TestX (0.00s)", "--- PASS: TestX (<duration>)"),
    ("# duration_ms 12.345", "# duration_ms <duration>"),
    ("real\t0m0.003s", "real\t<duration>"),
    ("<function f at 0x7f12ab34cd56>", "<function f at <address>>"),
    ("[main 1a2b3c4] mend\ncommit 1a2b3c4d5e6f", "[main <commit>] mend\ncommit <commit>"),
]
KEPT = [
    "version 2.1.332, 10.0.0.1, 1.2.3",
    "range(1, n + 1) at line 12, port of the C code",
    "/tmp/my-script.python and /tmp/notes.txt",
    "process 12 files in 3 steps; the hostname is required",
    "12 passed, 3 failed, exit code 1",
    "9:30 to 17:00",
    "x = 4294967296 # 0x7f",
    "git@github.com:user/repo.git",
    "may 5 of them",
    "-rw-r--r-- 1 user user 149",
]


@pytest.mark.parametrize(("text", "masked"), MASKED)
def test_a_rule_masks_what_differs_between_runs_and_nothing_beside_it(text: str, masked: str) -> None:
    """Row M14: the place stays, and to mask twice is to mask once."""
    assert mask_text(text) == masked
    assert mask_text(masked) == masked


@pytest.mark.parametrize("text", KEPT)
def test_what_no_rule_names_stays(text: str) -> None:
    """Row M14: a version, a path, a count, a line is part of the question."""
    assert mask_text(text) == text


def test_every_rule_is_tested_and_documented() -> None:
    """Row M14: listed, with their version, where a reader finds them."""
    tried = "".join(masked for _, masked in MASKED)
    page = Path("docs/replay.md").read_text()
    for rule in RULES:
        assert f"<{rule.name}>" in tried
    for rule in (*RULES, AGENT_ID, CALL_ID):
        assert f"| `{rule.name}` | {rule.version} | {rule.what} |" in page


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"prompt_cache_key": "a"}, {"prompt_cache_key": "b"}),
        ({"user": "a"}, {"user": "b"}),
        ({"metadata": {"sessionId": "a", "n": ["x"]}}, {"metadata": {"sessionId": "b", "n": ["y"]}}),
        ({"messages": [{"tool_call_id": "a"}]}, {"messages": [{"tool_call_id": "b"}]}),
        ({"messages": [{"id": "a", "input": {}}]}, {"messages": [{"id": "b", "input": {}}]}),
    ],
)
def test_ids_of_agents_and_calls_are_masked_where_they_stand(one: Any, other: Any) -> None:
    """Row M14: by their place in the request, whatever they look like."""
    assert Masker().shape(one).digest == Masker().shape(other).digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"messages": [{"user": "a"}]}, {"messages": [{"user": "b"}]}),
        ({"metadata": {"a": "x", "b": "x"}}, {"metadata": {"a": "x", "b": "y"}}),
        ({"metadata": {"a": 1}}, {"metadata": {"a": 2}}),
        ({"a": []}, {"a": {}}),
        ({"a": [[], 1]}, {"a": [[1]]}),
        ({"a": ["b"]}, {"a": "b"}),
        ({"a": 1}, {"b": 1}),
        ({"a": None}, {}),
        ({"a": True}, {"a": 1}),
        (["a"], "a"),
    ],
)
def test_what_is_not_the_same_request_has_another_shape(one: Any, other: Any) -> None:
    """Row M14: places, kinds and which ids are one id all count."""
    assert Masker().shape(one).digest != Masker().shape(other).digest


UNLIKE = [
    ("Make the server listen on port 8080", "Make the server listen on port 9090"),
    ("curl http://127.0.0.1:8080/ returned ok", "curl http://127.0.0.1:80/ returned ok"),
    ("AssertionError: '2024-02-29' != '2024-03-01'", "AssertionError: '2024-02-29' != '2024-02-28'"),
    ("assert f('12:30:00') == 1", "assert f('23:59:59') == 1"),
    ("3 failed in 0.12s", "3 failed in 99999s"),
    ("finish in 5 seconds", "finish in 5000 seconds"),
    ("took 3 seconds", "took 30 seconds"),
    ("ok\t0.01s", "ok\t900s"),
    ("retry (5 s)", "retry (500 s)"),
    ("real 0m1s", "real 59m1s"),
    ("kill process 1", "kill process 2"),
    ("PIDs: 1, 2, 3", "PIDs: 7"),
    ("id=1700000000", "id=1800000000"),
    ("id: 1700000000", "id: 1800000000"),
    ("made 1600000000", "made 1500000000"),
    ("meeting 3:00 PM", "meeting 9:00 AM"),
    ("revert commit deadbeef1", "revert commit cafebabe2"),
    ("prompt_userAdministrator", "prompt_userUnprivileged"),
    ("call run_integrationtests1", "call run_integrationtests2"),
    ("the function run_migrationsforward fails", "the function run_migrationsbackward fails"),
    ("req_authenticationtoken", "req_authorizationtoken1"),
    ("rm /tmp/tmp_backup_of_it", "rm /tmp/tmp_delete_it_now"),
    ("at <date>", "at 2026-01-01"),
    ("listen on port <port>", "listen on port 43210"),
    ("at <\ue001date>", "at <date>"),
]


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_requests_that_mean_another_thing_have_another_shape(one: str, other: str) -> None:
    """Row M14: what somebody chose is no accident of a run."""
    shapes = [Masker().shape({"messages": [{"role": "user", "content": text}]}) for text in (one, other)]
    assert shapes[0].digest != shapes[1].digest


SAID: list[Callable[[str], Any]] = [
    lambda text: {"messages": [{"role": "assistant", "content": [{"type": "text", "text": text}]}]},
    lambda text: {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": text}}]}]},
    lambda text: {"m": [{"function": {"name": "f", "arguments": text}}]},
    lambda text: {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": text}]},
    lambda text: {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"a": text}}}]}]},
]


@pytest.mark.parametrize("at", range(len(SAID)))
def test_what_the_model_said_comes_back_word_by_word(at: int) -> None:
    """Row M14: in its turns and calls nothing but ids may differ."""
    shapes = [
        Masker().shape(SAID[at](text)).digest
        for text in (
            "due 2026-01-01",
            "due 2027-01-01",
            "ses_2a7f1c9bdfffeXk3Yq9ZtPq4Ab",
            "ses_2b7f1c9bdfffeXk3Yq9ZtPq4Ab",
        )
    ]
    assert shapes[0] != shapes[1]
    assert shapes[2] == shapes[3]


@pytest.mark.parametrize("form", ["anthropic", "openai-chat", "openai-responses", "gemini"])
def test_a_request_replays_with_date_hostname_and_kernel_rewritten(tmp_path: Path, form: Any) -> None:
    """Row M14: as the agents' prompts say them, in all four forms."""
    seen = (
        "Today's date is Monday, November 30, 2026.\nPlatform: linux\nOS Version: Linux 5.15.0-1052-aws\n"
        "user@abc123def456:/workspace$ uname -a\n"
        "Linux abc123def456 5.15.0-1052-aws #57-Ubuntu SMP Mon Nov 30 07:55:44 UTC 2026 x86_64 GNU/Linux\n"
        "total 4\n-rw-r--r-- 1 user user 149 Nov 30 19:04 sumto.py\nProcess Group PGID: 17382"
    )
    rewritten = seen.replace("Monday, November 30, 2026", "Friday, January 1, 2027").replace("Nov 30", "Jan  1")
    rewritten = rewritten.replace("abc123def456", "elsewhere").replace("5.15.0-1052-aws #57", "6.8.0-40-generic #40")
    rewritten = rewritten.replace("5.15.0-1052-aws", "6.8.0-40-generic").replace("17382", "4")
    key = {"openai-responses": "input", "gemini": "contents"}.get(form, "messages")
    one, other = (asked({key: [{"role": "user", "content": text}]}, form) for text in (seen, rewritten))
    found = replay(one, one, folder=tmp_path)
    match = found.answer(other, route(other))
    assert isinstance(match, Match)
    assert match.level == "masked"
    told = "\n".join(match.covered)
    for rule in ("date", "host", "kernel", "pid", "ls-times"):
        assert f"$.{key}[0]: masked by {rule}: recorded '" in told
    assert "masked by pid: recorded '17382', now '4'" in told
    again = found.answer(other, route(other))
    assert isinstance(again, Match)
    assert again.covered == ()


def test_what_was_covered_is_paired_place_by_place() -> None:
    """Row M14: a day within a kernel's release is the kernel's, and the places after it are not moved by it."""
    then = (
        "uname: Linux build-7 6.8.0-40-generic #40 SMP Wed Jul  9 04:05:06 UTC 2031 x86_64\ton 2026-11-30\n"
        "12 passed in 0.05s (0:00:01), at 12:34:56 <date>\\n[1] 4711\\nPIDs: 12, 13; it's 2024-01-31"
    )
    now = (
        "uname: Linux bench 6.18.44-fc #1 SMP PREEMPT_DYNAMIC @0 x86_64\ton 2026-12-01\n"
        "12 passed in 11.5s, at 01:02:03 <date>\\n[1] 8\\nPIDs: 7, 13; it's 2024-01-31"
    )
    one, other = {"input": then}, {"input": now}
    assert Masker().shape(one) == Masker().shape(other)
    assert list(taken_apart(one, other, set())) == [
        (
            "$.input",
            "kernel",
            "build-7 6.8.0-40-generic #40 SMP Wed Jul  9 04:05:06 UTC 2031",
            "bench 6.18.44-fc #1 SMP PREEMPT_DYNAMIC @0",
        ),
        ("$.input", "date", "2026-11-30", "2026-12-01"),
        ("$.input", "duration", "0.05s (0:00:01)", "11.5s"),
        ("$.input", "clock", "12:34:56", "01:02:03"),
        ("$.input", "pid", "4711", "8"),
        ("$.input", "pid", "12, 13", "7, 13"),
    ]


def test_of_a_text_beyond_a_bound_only_that_it_differs_is_told() -> None:
    """What is looked through by its characters takes a hundred times its room."""
    filler = "x " * 600_000
    one, other = ({"input": f"{filler}{day}"} for day in ("2026-11-30", "2026-12-01"))
    assert Masker().shape(one) == Masker().shape(other)
    ((path, rule, old, new),) = taken_apart(one, other, set())
    assert (path, rule) == ("$.input", "some rule")
    assert old != new
    assert old.startswith("1200010 characters, sha256 ")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"9" * 5000, b'"\\ud800"', b"{}\0"]
)
def test_any_bytes_have_a_shape(body: bytes) -> None:
    """Row M13: what is no JSON is compared as the text that it is."""
    assert Masker().shape(parsed(body)) == Masker().shape(parsed(body))
    assert json.dumps(masked_value(parsed(body)))
