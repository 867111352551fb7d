"""TOML of a stranger: a key is bounded before tomllib sees it, and what only looks like a key is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.audit.policy import policy_of
from appliance.errors import InputRefused
from appliance.tasks.toml import parse_toml
from attest import toml
from attest.errors import Refused
from attest.roots import known_roots

MOST = toml.MAX_KEY_PARTS
LONG = ".".join("a" * 5_000)
"""tomllib takes it, in half a second; four times the parts take it sixteen times as long."""

KEYS = {
    "bare": "{} = 1",
    "in a header": "[{}]",
    "in a header of an array": "[[{}]]",
    "in an inline table": "x = {{y = 1, {} = 1}}",
    "in a table of an array": "x = [\n{{ {} = 1 }}]",
    "behind a text that holds quotes": 'x = """a "" \\""" b"""\n{} = 1',
    "behind a text that ends with quotes": 'x = """a"""""\n{} = 1',
    "behind a raw text": "x = '''a '' \\'''\n{} = 1",
    "behind a comment with a quote": 'x = 1 # "\n{} = 1',
}
PARTS: dict[str, Callable[[int], str]] = {
    "bare": lambda parts: ".".join("a" * parts),
    "spaced": lambda parts: " . ".join("a" * parts),
    "quoted": lambda parts: ".".join(['"a.b=[#"'] * parts),
    "raw": lambda parts: ".".join(["'a.\"='"] * parts),
}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("place", KEYS)
def test_a_key_of_more_parts_than_the_bound_is_refused_wherever_it_stands(place: str, parts: str) -> None:
    """And one at the bound is read: the bound is the key's, not the file's (attest 5, rows P11, X4)."""
    toml.loads(KEYS[place].format(PARTS[parts](MOST)))
    with pytest.raises(ValueError, match=rf"a key of more than {MOST} parts \(at line [12], column [0-9]+\)"):
        toml.loads(KEYS[place].format(PARTS[parts](MOST + 1)))


@pytest.mark.parametrize(
    "text",
    [
        f'x = """\n{LONG} = 1\n"""',
        f"x = '''\n{LONG} = 1\n'''",
        f'x = "{LONG} \\" {LONG}"',
        f"x = '{LONG}'",
        f"# {LONG}",
        "x = [" + "1.5, " * 100 + "]",
        "".join(f"a.b{n} = 1.5\n" for n in range(100)),
        f'x = """\r\n{LONG}\\\r\n"""',
    ],
)
def test_dots_that_are_no_key_are_read(text: str) -> None:
    """A prompt may hold any text, and a list any number of numbers (formats 1)."""
    toml.loads(text)


@pytest.mark.parametrize("text", ['x = """' + '\\"""' * 10_000, '"""' * 10_000, "'''" * 10_000, "x = '" + LONG, "."])
def test_what_ends_nowhere_is_the_parser_s_own_refusal(text: str) -> None:
    """Of an open text there is no way to say what was a key: the parser ends there as well."""
    with pytest.raises(ValueError, match="at "):
        toml.loads(text)


def test_every_reader_of_a_stranger_s_toml_has_the_bound(tmp_path: Path) -> None:
    """Suites, tasks, solvers, policies and roots: one mechanism (attest 5)."""
    words = f"a key of more than {MOST} parts"
    with pytest.raises(InputRefused, match=words) as refused:
        parse_toml(f"x = 1\n{LONG} = 1\n".encode(), "task.toml")
    assert refused.value.where == f"task.toml:2:{2 * MOST}"
    with pytest.raises(InputRefused, match=words):
        policy_of(f"{LONG} = 1\n".encode(), "policy.toml")
    (tmp_path / "roots.toml").write_text(f"{LONG} = 1\n")
    with pytest.raises(Refused, match=words):
        known_roots(tmp_path / "roots.toml")
