"""The placeholders of a solver's TOML: `{prompt}` and its kin, in argv, env and templates.

A placeholder is a lower-case word in braces. `{{word}}` stands for a literal `{word}`; braces around anything else
(JSON, awk programs with spaces, `${HOME}`) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

FLAGS: Final = "flags"
GATEWAY: Final = frozenset({"base_url", "dummy_key"})
"""Those of the model gateway: for solvers that say which wire they speak."""
KNOWN: Final = frozenset(
    {"prompt", "prompt_file", "model", "home", "workspace", "budget_seconds", FLAGS} | GATEWAY,
)

_PATTERN: Final = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


def named(text: str) -> Iterator[str]:
    """The placeholders that stand in `text`, known or not."""
    for match in _PATTERN.finditer(text):
        if match[2] is not None:
            yield match[2]


def fill(text: str, values: Mapping[str, str]) -> str:
    """`values` has every placeholder of `text` (the definition's reader made sure); filled text is not read again."""

    def put(match: re.Match[str]) -> str:
        return "{" + match[1] + "}" if match[1] is not None else values[match[2]]

    return _PATTERN.sub(put, text)


def with_flags(argv: tuple[str, ...], flags: tuple[str, ...]) -> tuple[str, ...]:
    """`{flags}` is a whole argument and becomes none, one or many."""
    marker = "{" + FLAGS + "}"
    return tuple(word for argument in argv for word in (flags if argument == marker else (argument,)))
