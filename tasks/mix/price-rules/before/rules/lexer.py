"""Text to tokens: pairs of kind and text."""

import re


class RuleError(Exception):
    pass


WORDS = {"let", "fn", "return", "if", "else", "while", "print", "and", "or", "not", "true", "false", "nil"}
TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*) | (?P<number>\d+) | (?P<name>[A-Za-z_]\w*) | (?P<text>"[^"\n]*")
      | (?P<sign>==|!=|<=|>=|[-+*/%<>=(){},;])""",
    re.VERBOSE,
)


def tokens(source):
    found = []
    at = 0
    while at < len(source):
        match = TOKEN.match(source, at)
        if match is None:
            raise RuleError(f"what is {source[at]!r}?")
        kind, text = match.lastgroup, match.group()
        at = match.end()
        if kind == "name" and text in WORDS:
            kind = "word"
        if kind != "space":
            found.append((kind, text))
    found.append(("end", "the end"))
    return found
