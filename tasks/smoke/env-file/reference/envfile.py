"""Settings from .env files."""

import re


class EnvFileError(Exception):
    pass


_QUOTED = re.compile(r"""(?P<quote>["'])(?P<value>.*?)(?P=quote)\s*(?:#.*)?$""")


def parse_line(text, number):
    """`(name, value)` of a line, None for one that sets nothing."""
    text = text.strip()
    if not text or text.startswith("#"):
        return None
    if text.startswith("export "):
        text = text[len("export "):]
    name, equals, value = text.partition("=")
    if not equals or _comment(name) != name:
        raise EnvFileError(f"line {number}: no = in {_comment(text)!r}")
    name, value = name.strip(), value.strip()
    if not name:
        raise EnvFileError(f"line {number}: no name")
    quoted = _QUOTED.match(value)
    return name, quoted["value"] if quoted else _comment(value).strip()


def _comment(text):
    """Text up to a # at its start or after white space."""
    return re.split(r"(?:^|\s)#", text, maxsplit=1)[0]


def load_env(text):
    """The settings of a whole file; a name that stands twice has its last value."""
    settings = {}
    for number, line in enumerate(text.splitlines(), 1):
        pair = parse_line(line, number)
        if pair:
            settings[pair[0]] = pair[1]
    return settings
