"""The command line: a table of verbs, of which only the one that is called is imported."""

from __future__ import annotations

import errno
import importlib
import inspect
import os
import re
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final, NoReturn

import typer

from appliance.cli import output
from appliance.errors import HostRefused, Refusal, UsageRefused

VERBS: Final[dict[str, str]] = {
    "doctor": "Is this host fit: engine, cgroups, counters, signing, disk, noise; each with its mend.",
    "images": "List, lock, build, load, verify images, or print their bill of materials.",
    "tasks": "List, show, check suites and tasks, or import somebody else's benchmark.",
    "run": "Run solvers on a suite; write signed records.",
    "shell": "A shell in a fresh container over what a solver left.",
    "report": "Tables of records: resolution, energy, wall time.",
    "show": "One trial of a record, or one artifact after its digest is checked.",
    "sign": "Sign a record.",
    "verify": "Check records and their bundles without trusting whoever sent them.",
    "meter": "Serve, watch, export, probe, calibrate the counters that joules are read from.",
    "reproduce": "Run a record's plan again and say whether it holds.",
    "publish": "Put records into a folder that any web server can carry and anyone can verify.",
    "trust": "Make, show or export the roots that signatures are checked against.",
    "challenge": "Make a nonce that a run is bound to, so that its record shows when and for whom it was made.",
    "submission": "Pack records for a receiver; check, receive, judge a stranger's; release or refuse what waits.",
    "schema": "List, show or check against the published JSON Schemas.",
    "cascade": "Serve the reference cascade, or ask one who it is and what it answers.",
    "gc": "Remove what interrupted runs and image builds left on this host.",
}
_MODULE: Final[dict[str, str]] = {verb: f"appliance.cli.{verb}" for verb in VERBS}
_USAGE: Final = 2
_MARKUP: Final = re.compile(r"\[(?=[a-z#/@][^\[]*\])")
"""A bracket that Rich would take for the beginning of a style, and swallow with all that stands in it."""
_NAMES: Final = frozenset({errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR})
_NOT_OURS: Final = _NAMES | {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}


class _Stopped(BaseException):
    """A signal that ends a program: raised, so that whatever is under way clears up after itself."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = number


def main() -> NoReturn:
    for number in (signal.SIGTERM, signal.SIGHUP):
        # What `nohup` told us not to hear stays unheard.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stopped)
    sys.exit(run(sys.argv[1:]))


def _stopped(number: int, _frame: FrameType | None) -> NoReturn:
    # A second one waits for nothing.
    signal.signal(number, signal.SIG_DFL)
    raise _Stopped(number)


def run(words: Sequence[str]) -> int:
    """The exit status of `appliance WORDS...`; refusals are printed, bugs keep their traceback."""
    words = words or ["--help"]
    try:
        return _carried_out(words)
    except Refusal as refusal:
        return _refused(words, refusal.status, refusal)
    except typer.TyperException as error:
        verb = _chosen(words)
        ask = f"appliance {verb} --help" if verb in VERBS else "appliance --help"
        said = error.format_message().strip()
        # A group without its verb: its help, printed already, says what there is.
        asked = UsageRefused(said, mend=f"see `{ask}`", reason="usage")
        return _refused(words, error.exit_code, asked) if said else error.exit_code
    except (typer.Abort, KeyboardInterrupt):
        output.note("interrupted")
        return 130
    except _Stopped as stopped:
        output.note("stopped")
        return 128 + stopped.number
    except BrokenPipeError:
        # Whoever read us has gone; what is left in the buffer must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _carried_out(words: Sequence[str]) -> int:
    try:
        command = _to_the_letter(typer.main.get_command(_application(_chosen(words))))
        ended = command.main(args=list(words), prog_name="appliance", standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        refusal = _of_the_machine(error)
        if refusal is None:
            raise
        raise refusal from error
    except MemoryError as error:
        raise HostRefused("out of memory", mend="more of it, or a higher limit (`ulimit -v`)") from error
    return ended if isinstance(ended, int) else 0


def _of_the_machine(error: OSError) -> Refusal | None:
    """What stands in the way at a place that was named to us, wherever we met it; None where we may be at fault."""
    if error.errno not in _NOT_OURS or error.filename is None:
        return None
    kind = UsageRefused if error.errno in _NAMES else HostRefused
    return kind((error.strerror or str(error)).lower(), where=os.fsdecode(error.filename), mend="name another place")


def _refused(words: Sequence[str], status: int, refusal: Refusal) -> int:
    output.note(f"appliance: {output.one_line(str(refusal))}")
    if "--json" in words and not output.emitted():
        found = {
            "status": status,
            "where": refusal.where,
            "mend": refusal.mend,
            "reason": refusal.reason,
            "message": refusal.message,
        }
        output.emit_json({"error": found})
    return status


def _chosen(words: Sequence[str]) -> str | None:
    """The verb whose module is needed: the first word, or while completing, the first word typed so far."""
    typed = os.environ.get("COMP_WORDS", "").split()[1:] if "_APPLIANCE_COMPLETE" in os.environ else list(words)
    return next((word for word in typed if not word.startswith("-")), None)


def _application(chosen: str | None) -> typer.Typer:
    app = typer.Typer(
        help="Benchmark coding agents for task success and energy together, so that a stranger can check the result.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for verb, sentence in VERBS.items():
        if verb != chosen:
            app.command(verb, help=sentence)(_not_loaded)
            continue
        module = importlib.import_module(_MODULE[verb])
        own: typer.Typer = module.app
        commands = own.registered_commands
        for command in commands:
            command.help = _flowing(command.help or inspect.getdoc(command.callback))
        if len(commands) == 1 and commands[0].name is None and commands[0].callback is not None:
            app.command(verb, help=sentence, context_settings=commands[0].context_settings)(commands[0].callback)
        else:
            app.add_typer(own, name=verb, help=sentence, no_args_is_help=True)
    return app


def _to_the_letter(command: Any) -> Any:
    """Every word of help as it was written: `[mode]` is a table of a TOML here, and no style."""
    for told in (command, *command.params):
        if getattr(told, "help", None):
            told.help = _MARKUP.sub(r"\\[", told.help)
    for below in getattr(command, "commands", {}).values():
        _to_the_letter(below)
    return command


def _flowing(text: str | None) -> str | None:
    """Paragraphs as they flow on whatever terminal reads them: a docstring is broken where our lines end."""
    return text and "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version as installed

        output.line(f"appliance {installed('bench-appliance')}")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
    ),
) -> None: ...


def _not_loaded() -> None:
    """Stands for a verb in the list of verbs; never called."""


if __name__ == "__main__":
    main()
