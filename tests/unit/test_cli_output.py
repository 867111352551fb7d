"""Where words go, and that a stranger's words stay where they belong."""

from __future__ import annotations

import pytest

from appliance.cli import output

HOSTILE = "load\nverdict    verified\r\x1b[2K\u2028x"
SHOWN = "load\\nverdict    verified\\r\\x1b[2K\\u2028x"


def test_a_line_is_one_line_whatever_it_tells(capsys: pytest.CaptureFixture[str]) -> None:
    """A value that holds line feeds begins no line that looks like the program's own (attest 5)."""
    output.line(f"reason     {HOSTILE}")
    output.note(HOSTILE)
    said = capsys.readouterr()
    assert said.out == f"reason     {SHOWN}\n"
    assert said.err == f"{SHOWN}\n"


def test_text_of_many_lines_is_printed_as_such_and_drives_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """`schema show`, and an artifact on a terminal."""
    output.block(HOSTILE)
    assert capsys.readouterr().out == SHOWN.replace("\\n", "\n", 1) + "\n"
