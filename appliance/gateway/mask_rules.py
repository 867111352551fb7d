"""The rules of `masks-v1`: what may differ between two runs of one agent over the same answers.

Each masks the part of its pattern that is called `v`, and leaves the place around it as it is. A rule whose values are
`told_apart` keeps which of them are equal: two ids that were one id in the recorded request must be one id again.
A rule that is added, or a pattern that changes, makes masks-v2: cassettes name the version (docs/replay.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    name: str
    version: int
    what: str
    """For docs/replay.md, which a test holds to it."""
    hint: str
    """What stands wherever it applies, as a pattern that is quick to look for."""
    pattern: str
    told_apart: bool = False
    each: bool = False
    """A list of them, of which each is masked: how many there are stays."""
    of_ids: bool = False
    """Also in what the model said, which comes back word by word: an agent may have put ids of its own in there."""


_MONTH: Final = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?"
    "|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY: Final = (
    "(?:Mon(?:day)?|Tue(?:s(?:day)?)?|Wed(?:nesday)?|Thu(?:rs(?:day)?)?|Fri(?:day)?|Sat(?:urday)?|Sun(?:day)?)"
)
_ZONE: Final = (
    r"(?: ?(?:(?:GMT|UTC)?[+-]\d{2}:?\d{2}|Z\b|(?:UTC|GMT|CES?T|WES?T|EES?T|BST|MSK|IST|JST|KST|[AECMP][SD]T)\b))?"
    r"(?: \([A-Z][A-Za-z ]{2,40}\))?"
)
_CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?: ?[AaPp][Mm]\b)?"
_NTH: Final = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:19|20)\d{2}(?!\d)"
_HEX: Final = "[0-9a-f]"
_RANDOM: Final = r"(?=[A-Za-z0-9]*\d[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{16,}"
"""A digit before a letter: words of a programmer, `run_migrationsforward1`, have none."""
_EPHEMERAL: Final = r"(?:3276[89]|327[7-9]\d|32[89]\d\d|3[3-9]\d{3}|4\d{4}|5\d{4}|6[0-4]\d{3}|65[0-5]\d\d)"
"""What an operating system gives to who asks for any port; all others somebody chose."""
ESCAPED: Final = "\ue000"
"""Stands before a line feed, tab or return that a text spells as JSON does, with a backslash and a letter: to the rules
it is the character that it means, and it is not mistaken for one that is there."""
_LINE: Final = r"(?:(?m:^)|(?<=\"))"
"""Where a line begins, also in JSON that stands in a text."""
_LINE_END: Final = rf"(?={ESCAPED}?(?m:$))"
_QUOTE: Final = r"(?:\\?[\"'])?"
_END: Final = r"(?!\w)"

RULES: Final[tuple[Rule, ...]] = (
    Rule(
        "uuid",
        1,
        "a UUID",
        "-",
        r"(?<![0-9A-Za-z])(?P<v>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})(?![0-9A-Za-z])",
        told_apart=True,
        of_ids=True,
    ),
    Rule(
        "session-id",
        1,
        "an id of 16 letters and digits at least, mixed, behind `ses_`, `sess_`, `msg_`, `prt_`, `per_`, `req_`, "
        "`resp_`, `run_`, `prompt_` or `chatcmpl-`",
        "_|chatcmpl-",
        rf"(?<![\w-])(?P<v>(?:ses|msg|prt|req|resp|run|sess|prompt|per)_{_RANDOM}|chatcmpl-{_RANDOM})" + _END,
        told_apart=True,
        of_ids=True,
    ),
    Rule(
        "call-id",
        1,
        "a tool call's id that an agent makes of the tool's name, a clock in milliseconds and digits; `call_`, "
        "`toolu_` or `chatcmpl-tool-` and 16 letters and digits at least, mixed",
        "[-_]1[0-9]{12}|call_|toolu_|-tool-",
        r"(?<![\w-])(?P<v>[A-Za-z][A-Za-z0-9_.]{0,64}[-_]1\d{12}[-_][0-9a-z]+"
        rf"|(?:call|toolu)_{_RANDOM}|chatcmpl-tool-{_RANDOM})" + _END,
        told_apart=True,
        of_ids=True,
    ),
    Rule(
        "chunk-id",
        1,
        "the id that codex gives to a command's output, `Chunk ID:`",
        "Chunk ID",
        rf"\bChunk ID: (?P<v>{_HEX}{{4,16}})" + _END,
        told_apart=True,
    ),
    Rule(
        "request-hash",
        1,
        "claude's own hash over its request, `cch=`",
        "cch=",
        rf"\bcch=(?P<v>{_HEX}{{5,}})" + _END,
    ),
    Rule(
        "date",
        1,
        "a day, with its clock where one stands beside it: ISO 8601 (alone between single quotes it is a program's), "
        "`ctime`, HTTP, in English words, 11/30/2026, 30.11.2026",
        r"\d{4}",
        rf"(?<![\w.])(?<!\d[-/])(?!(?<=')[\d/.-]{{8,10}}\\?')(?P<v>(?:19|20)\d{{2}}(?P<s>[-/.])(?:0\d|1[0-2])(?P=s)[0-3]\d(?!\d)"
        rf"(?:T\d{{2}}-\d{{2}}-\d{{2}}|(?:T|,? ){_CLOCK}{_ZONE})?"
        rf"|(?:{_DAY},? )?{_MONTH}\.? {{1,2}}{_NTH},?(?: {_CLOCK}{_ZONE})? {_YEAR}(?:,?(?: at)? {_CLOCK}{_ZONE})?"
        rf"|(?:{_DAY},? )?{_NTH}[ -]{_MONTH}\.?,?[ -]{_YEAR}(?:,?(?: at)? {_CLOCK}{_ZONE})?"
        rf"|\d{{1,2}}(?P<n>[/.])\d{{1,2}}(?P=n){_YEAR}(?:,? {_CLOCK}{_ZONE})?)" + _END,
    ),
    Rule(
        "clock",
        1,
        "a time of the day with seconds, but alone between single quotes",
        r":\d{2}:",
        r"(?<![\w:.])(?!(?<=')[\d:]{7,8}\\?')(?P<v>\d{1,2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?: ?[AaPp][Mm]\b)?)(?![\w:])",
    ),
    Rule(
        "epoch",
        1,
        "seconds since 1970, from 2023 to 2033, with or without a fraction; the same in milliseconds; but no `id`",
        r"1[7-9]\d{8}",
        r"(?<![\w.])(?<!\b(?i:id)[=: ])(?<!\b(?i:id)[=:] )(?P<v>1[7-9]\d{8}(?:\.\d{1,9}|\d{3})?)(?![\w.])",
    ),
    Rule(
        "duration",
        1,
        "how long something took, as test runners and `time` say it: in milliseconds, or in seconds with a fraction",
        r"\d ?m?s|seconds|duration",
        r"(?:\bin |\btook |\btime:? +|\bDone in |\t|\(|\b(?:real|user|sys)\s+)"
        r"(?P<v>(?:(?:\d+m ?)?\d+\.\d+ ?(?:s|ms|sec|seconds?)|\d+ ?ms)\b(?: \((?:<clock>|\d+:\d{2}:\d{2})\))?)"
        r"|\bduration_(?:ms|seconds)\\?\"?:? ?(?P<w>\d+(?:\.\d+)?)(?![\w.])",
    ),
    Rule(
        "ls-times",
        1,
        "in a line of `ls -l`: the moment, and the size of a folder; the line `total`",
        r"[r-][w-][xsS-][r-]",
        _LINE + r"(?:[bclps-][rwxsStT-]{9}[.+@]? +\d+ +\S+ +\S+ +\d+(?:, +\d+)? +(?P<v>(?:[A-Z][a-z]{2} +\d{1,2}"
        r"|<date>|\d{4}-\d{2}-\d{2}) +(?:\d{1,2}:\d{2}(?!:)|\d{4}))(?= )"
        r"|d[rwxsStT-]{9}[.+@]? +\d+ +\S+ +\S+ +(?P<w>\d+ +(?:[A-Z][a-z]{2} +\d{1,2}"
        r"|<date>|\d{4}-\d{2}-\d{2}) +(?:\d{1,2}:\d{2}(?!:)|\d{4}))(?= )"
        r"|total (?P<x>\d+)(?=" + ESCAPED + r"?\n[bcdlps-][r-][w-]))",
    ),
    Rule(
        "pid",
        1,
        "a number behind PID, PIDs, PGID, PPID or `process id`; of a shell's background work, `[1] 4711`",
        r"(?i)p(?:[gp]?id|rocess)|\[\d+\] \d",
        r"(?i:\b(?:pids?|pgid|ppid|process(?: group)? id))\b"
        + _QUOTE
        + r"(?: ?[:=#]| is)? ?(?P<v>\d+(?:, ?\d+)*)(?![\w.])"
        r"|" + _LINE + r"\[\d+\] (?P<w>\d+)" + _LINE_END,
        each=True,
    ),
    Rule(
        "temp-path",
        1,
        "what is random in a name right below /tmp or /var/tmp, and in the folder that codex puts into PATH",
        "tmp/|codex-arg0",
        r"(?<=/tmp/)(?P<v>(?:tmp[a-z0-9_]{8}|tmp\.[A-Za-z0-9]{6,16})(?![\w-])"
        r"|[A-Za-z0-9_-]{0,40}?[._-](?=[A-Za-z0-9]*[0-9A-Z])(?=[A-Za-z0-9]*[a-zA-Z])[A-Za-z0-9]{6,16}(?![\w.-]))"
        r"|(?<=/codex-arg0)(?P<w>[A-Za-z0-9]{6})" + _END,
        told_apart=True,
    ),
    Rule(
        "host",
        1,
        "a host's name behind `hostname`, `host name` or `nodename` with `:` or `=`, and in a shell's prompt "
        "`user@host:`",
        "(?i)host|node|@",
        r"(?i:\b(?:host ?name|nodename))\b" + _QUOTE + r" ?[:=] ?" + _QUOTE + r"(?P<v>[A-Za-z0-9][A-Za-z0-9.-]{0,252})"
        r"|\b[a-z_][a-z0-9_-]*@(?P<w>[A-Za-z0-9][A-Za-z0-9-]{0,62})(?=:[~/])",
        told_apart=True,
    ),
    Rule(
        "kernel",
        1,
        "Linux with its release and what `uname -a` says around it; as Python's `platform` says it",
        "Linux",
        r"\bLinux (?P<v>(?:[A-Za-z0-9][\w.-]* )?(?:version )?\d+\.\d+(?:\.\d+)?[\w.+~-]*"
        r"(?: #\d+[^\s\"']*(?:[^\n\"\\]{0,120}?(?= (?:x86_64|amd64|aarch64|arm64|i686|GNU/Linux)\b)"
        r"|(?: (?:SMP|PREEMPT\w*|<date>))*))?)(?![\w.])"
        r"|\bLinux-(?P<w>\d+\.\d+(?:\.\d+)?[\w.+~]*(?:-[\w.+~]+)*)(?=-(?:x86_64|amd64|aarch64|arm64|i686)\b)",
    ),
    Rule(
        "port",
        1,
        "a port from 32768 on, which an operating system chose: of this machine's own addresses, and behind the word",
        r"(?i)127\.0|localhost|0\.0\.0\.0|\[::|port",
        r"(?:\b127\.0\.0\.1|\blocalhost|\b0\.0\.0\.0|\[::1?\]):"
        rf"(?P<v>{_EPHEMERAL})(?![\w.])"
        rf"|(?i:\bport)(?: ?[:=#])? (?P<w>{_EPHEMERAL})(?![\w.])",
    ),
    Rule(
        "address",
        1,
        "an address in memory: `at 0x7f...`",
        "0x",
        r"\bat (?P<v>0x[0-9a-fA-F]{6,16})" + _END,
        told_apart=True,
    ),
    Rule(
        "commit",
        1,
        "a commit's hash as git names it when it is made or logged, where a line begins; it depends on the clock",
        r"commit|\[",
        _LINE
        + rf"commit (?P<v>{_HEX}{{7,40}})"
        + _END
        + "|"
        + _LINE
        + rf"\[[\w./-]+(?: \(root-commit\))? (?P<w>{_HEX}{{7,12}})\]",
        told_apart=True,
    ),
)

CALL_ID: Final = Rule(
    "tool-call-ids",
    1,
    "JSON: the id of a tool's call, where it is called (`id` beside `function`, `input`, `args`, `arguments` or "
    "`response`; `call_id`) and where it is answered (`tool_call_id`, `tool_use_id`, `call_id`)",
    "",
    "",
    told_apart=True,
)
CALL_ID_KEYS: Final = frozenset({"tool_call_id", "tool_use_id", "call_id"})
CALL_MEMBERS: Final = frozenset({"function", "input", "args", "arguments", "response", "call_id"})
"""Beside one of these, `id` is a call's."""

AGENT_ID: Final = Rule(
    "agent-ids",
    1,
    "JSON: what an agent says of itself at the top of its request: `user`, `prompt_cache_key`, `safety_identifier`, "
    "`session_id`, and every text below `metadata` and `client_metadata`",
    "",
    "",
    told_apart=True,
)
AGENT_ID_KEYS: Final = frozenset({"user", "prompt_cache_key", "safety_identifier", "session_id"})
AGENT_ID_PARENTS: Final = frozenset({"metadata", "client_metadata"})
