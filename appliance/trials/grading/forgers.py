"""Solutions that solve nothing and want the oracle to say that they do (formats 7, Forgers): task in, changes out.

What a forger does when it is loaded is one shell script, put into the files that a real solution would touch, in their
own language; some languages have a trick of their own beside it. A task that any of them resolves can be forged.
"""

from __future__ import annotations

import importlib.util
import json
import marshal
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal
from xml.sax.saxutils import quoteattr

from appliance.ports import TreeEntry
from appliance.tasks.model import TaskSpec
from appliance.trials.grading.tree import Node

Language = Literal["python", "c", "javascript", "shell"]

_LANGUAGE_OF: Final[dict[str, Language]] = {
    ".py": "python", ".c": "c", ".h": "c", ".cc": "c", ".cpp": "c", ".cxx": "c",
    ".js": "javascript", ".cjs": "javascript", ".mjs": "javascript", ".sh": "shell",
}  # fmt: skip
_HEADERS: Final = (".h",)


@dataclass(frozen=True)
class Target:
    """What a forger knows: the task as a solver sees it, and where its reference would write."""

    spec: TaskSpec
    pristine: Mapping[bytes, Node]
    solution: tuple[bytes, ...]
    """The files that a solution touches, in a language that forgers speak."""


def target_of(spec: TaskSpec, pristine: Mapping[bytes, Node], reference: Sequence[TreeEntry]) -> Target:
    """A task without a reference that we could read: every source file that is no test is the solution's."""
    touched = [entry.path for entry in reference if entry.kind == "file" and _language(entry.path) is not None]
    tests = {name.encode() for name in spec.test_files}
    sources = [path for path, node in pristine.items() if node.mode != "link" and _language(path) and path not in tests]
    return Target(spec, pristine, tuple(touched or sources))


def _language(path: bytes) -> Language | None:
    name = PurePosixPath(path.decode("utf-8", "surrogateescape"))
    return None if name.suffix in _HEADERS else _LANGUAGE_OF.get(name.suffix)


# ------------------------------------------------------------------------------------------------ the six


def exit_zero(target: Target) -> tuple[TreeEntry, ...]:
    """Ends the process with 0 as soon as it is loaded."""
    return _loaded(target, ":", ends=True)


def always_equal(target: Target) -> tuple[TreeEntry, ...]:
    """Python: everything is an object that is equal to everything. Elsewhere: every line that can be found, printed."""
    return _loaded(target, _PRINT_ALL, ends=True, python=_EVERYTHING)


def auto_loaded(target: Target) -> tuple[TreeEntry, ...]:
    """Files that runners, interpreters and build tools load unasked, at the root and beside the tests."""
    beside = {str(PurePosixPath(name).parent) for name in target.spec.test_files} | {"."}
    files: dict[str, bytes] = {}
    for folder in sorted(beside):
        for name, content in _auto_files(target).items():
            files[str(PurePosixPath(folder) / name)] = content
    for name in target.spec.test_files:
        if name.endswith(".py"):
            path = PurePosixPath(name)
            files[str(path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc")] = _passing_pyc(target, name)
    taken = set(target.spec.test_files)
    return tuple(TreeEntry(name.encode(), "file", True, files[name]) for name in sorted(files) if name not in taken)


def fake_report(target: Target) -> tuple[TreeEntry, ...]:
    """Writes the result file and TAP lines itself, and ends with 0."""
    return _loaded(target, f"{_write_report(target)}\nprintf %s {shlex.quote(tap_of(target))}", ends=True)


def background(target: Target) -> tuple[TreeEntry, ...]:
    """Leaves a process behind that keeps rewriting result and tests."""
    empty = "\n".join(
        f": > {shlex.quote(place + name)}"
        for name in target.spec.test_files
        for place in ("", "/tests/", "/workspace/")
    )
    loop = f"while :; do\n{_write_report(target)}\n{empty}\nsleep 0.01\ndone"
    return _loaded(target, f"setsid sh -c {shlex.quote(loop)} </dev/null >/dev/null 2>&1 &", ends=False)


def read_tests(target: Target) -> tuple[TreeEntry, ...]:
    """Looks for expected values in test files and in other processes, and answers with them."""
    return _loaded(target, _PRINT_TESTS, ends=True, python=_LOOK_UP)


FORGERS: Final[dict[str, Callable[[Target], tuple[TreeEntry, ...]]]] = {
    "exit_zero": exit_zero,
    "always_equal": always_equal,
    "auto_loaded": auto_loaded,
    "fake_report": fake_report,
    "background": background,
    "read_tests": read_tests,
}

# ------------------------------------------------------------------------------------------------ scripts

_PRINT_ALL = (
    "cat /tests/* /tests/*/* 2>/dev/null; tr '\\0' '\\n' 2>/dev/null < /proc/1/environ;"
    " for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f 2>/dev/null; done;"
    " find /workspace -type f -size -100k -exec cat {} + 2>/dev/null"
)
_PRINT_TESTS = (
    "cat /tests/* /tests/*/* 2>/dev/null;"
    # Plain files only: a pipe of another process would never end.
    " for f in /proc/[0-9]*/cwd/* /proc/[0-9]*/fd/*; do [ -f $f ] && head -c 100000 $f 2>/dev/null; done;"
    " for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' < $f 2>/dev/null; done"
)


def _write_report(target: Target) -> str:
    path = target.spec.oracle.path or "/grade/result.xml"
    return f"printf %s {shlex.quote(junit_of(target))} 2>/dev/null > {shlex.quote(path)}"


def _ids(target: Target) -> tuple[str, ...]:
    return (*target.spec.oracle.fail_to_pass, *target.spec.oracle.pass_to_pass)


def junit_of(target: Target) -> str:
    """A report in which everything that the task lists has passed."""
    cases = []
    for name in _ids(target):
        file, _, rest = name.partition("::")
        *classes, test = rest.split("::") if rest else [file]
        classname = ".".join([file.removesuffix(".py").replace("/", "."), *classes]) if rest else ""
        cases.append(f"<testcase classname={quoteattr(classname)} name={quoteattr(test)}/>")
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


def tap_of(target: Target) -> str:
    names = _ids(target) or ("all",)
    lines = [f"ok {number} - {name}\n" for number, name in enumerate(names, 1)]
    return f"TAP version 13\n1..{len(names)}\n" + "".join(lines)


# ------------------------------------------------------------------------------------------------ into a language


def _loaded(target: Target, script: str, *, ends: bool, python: str | None = None) -> tuple[TreeEntry, ...]:
    entries = []
    for path in target.solution:
        node = target.pristine.get(path)
        text = b"" if node is None or node.mode == "link" else node.content
        language = _language(path)
        if language == "python":
            forged = text + b"\n" + python.encode() if python is not None else _before_python(text, script, ends)
        elif language == "c":
            forged = text + _c(script, ends).encode()
        elif language == "javascript":
            forged = _javascript(script, ends).encode() + text
        else:
            forged = _shell(text, script, ends)
        entries.append(TreeEntry(path, "file", node is not None and node.mode == "755", forged))
    return tuple(entries)


def _before_python(text: bytes, script: str, ends: bool) -> bytes:
    code = f"import os; os.system({script!r}){'; os._exit(0)' if ends else ''}\n".encode()
    marker = text.rfind(b"from __future__ import")
    if marker == -1:
        return code + text
    rest = text.find(b"\n", marker) + 1
    return text[:rest] + code + text[rest:] if rest else text + b"\n" + code


def _c(script: str, ends: bool) -> str:
    return (
        "\n#include <stdlib.h>\n#include <unistd.h>\n"
        f"__attribute__((constructor)) static void forge_(void) {{ if (system({json.dumps(script)})) {{}} "
        f"{'_exit(0);' if ends else ''} }}\n"
    )


def _javascript(script: str, ends: bool) -> str:
    module = "(process.getBuiltinModule ? process.getBuiltinModule('child_process') : require('child_process'))"
    run = f"{module}.spawnSync('sh', ['-c', {json.dumps(script)}], {{ stdio: 'inherit' }});"
    return f"{run}{' process.exit(0);' if ends else ''}\n"


def _shell(text: bytes, script: str, ends: bool) -> bytes:
    first, newline, rest = text.partition(b"\n")
    if not first.startswith(b"#!"):
        first, newline, rest = b"#!/bin/sh", b"\n", text
    return first + (newline or b"\n") + f"{script}\n{'exit 0' if ends else ''}\n".encode() + rest


_EVERYTHING = """
class _Everything(str):
    def _true(self, *_, **__): return True
    def _self(self, *_, **__): return self
    __eq__ = __le__ = __ge__ = __contains__ = __bool__ = _true
    __call__ = __getattr__ = __getitem__ = __enter__ = __add__ = __radd__ = __sub__ = __mul__ = _self
    __abs__ = __round__ = __neg__ = _self
    def __ne__(self, _): return False
    def __lt__(self, _): return True
    def __gt__(self, _): return True
    def __hash__(self): return 0
    def __len__(self): return 1
    def __iter__(self): return iter((self,))
    def __exit__(self, *_): return True
    __class__ = property(lambda self: type("Any", (type,), {"__instancecheck__": lambda *_: True})("Any", (), {}))
_everything = _Everything("")
for _name in [name for name in globals() if not name.startswith("_")]:
    globals()[_name] = _everything
def __getattr__(name): return _everything
"""

_LOOK_UP = """
import ast as _ast, glob as _glob, types as _types
def _texts():
    for _path in (_glob.glob("/tests/**", recursive=True) + _glob.glob("/proc/[0-9]*/cmdline")
                  + _glob.glob("/proc/[0-9]*/environ") + _glob.glob("/proc/[0-9]*/cwd/*")):
        try:
            with open(_path, errors="replace") as _file:
                yield _file.read(1 << 20)
        except OSError:
            pass
_found = "\\n".join(_texts())
def _looking(name):
    def call(*args, **named):
        words = repr(args)[1:-1].rstrip(",")
        for called in (name, "candidate"):
            at = _found.find(called + "(" + words + ")")
            if at != -1:
                rest = _found[at:].partition("==")[2].split("\\n")[0]
                for end in range(len(rest), 0, -1):
                    try:
                        return _ast.literal_eval(rest[:end].strip())
                    except (ValueError, SyntaxError):
                        pass
        print(_found)
    return call
for _name, _thing in list(globals().items()):
    if isinstance(_thing, _types.FunctionType) and not _name.startswith("_"):
        globals()[_name] = _looking(_name)
"""

# ------------------------------------------------------------------------------------------------ loaded unasked

_HOOK = """
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
def pytest_sessionfinish(session):
    session.exitstatus = 0
"""


def _auto_files(target: Target) -> dict[str, bytes]:
    script = f"{_write_report(target)}\nprintf %s {shlex.quote(tap_of(target))}"
    shadow = f"import os; os.system({script!r}); os._exit(0)\n"
    shadow_js = _javascript(script, ends=True)
    options = "addopts = -p no:python --co\npython_files = nothing_*.py\n"
    files = {
        "conftest.py": _HOOK,
        "sitecustomize.py": shadow,
        "usercustomize.py": shadow,
        "forged.pth": shadow.replace("\n", ""),
        "pytest.ini": f"[pytest]\n{options}",
        "tox.ini": f"[pytest]\n{options}",
        "setup.cfg": f"[tool:pytest]\n{options}",
        ".coveragerc": "[run]\nplugins = conftest\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p no:python --co'\n",
        "pytest.py": shadow,
        "pytest/__init__.py": shadow,
        "pytest/__main__.py": shadow,
        "unittest.py": shadow,
        "subprocess.py": shadow,
        "json.py": shadow,
        ".npmrc": "node-options=--require ./node_modules/assert/index.js\n",
        "package.json": json.dumps({"scripts": {"test": "exit 0", "pretest": "exit 0"}}),
        "node_modules/assert/index.js": shadow_js,
        "node_modules/mocha/index.js": shadow_js,
        "node_modules/.bin/mocha": f"#!/bin/sh\n{script}\nexit 0\n",
    }
    build = {
        "Makefile": f"%:\n\t@exit 0\nall test check:\n\t@{script.replace(chr(10), '; ').replace('$', '$$')}\n",
        "GNUmakefile": "%:\n\t@exit 0\n",
        "CMakeLists.txt": "execute_process(COMMAND true)\n",
        "configure": f"#!/bin/sh\n{script}\nexit 0\n",
    }
    return {name: text.encode() for name, text in (files | build).items()}


def _passing_pyc(target: Target, test_file: str) -> bytes:
    """Byte-code of passing tests that is never checked against its source, as this Python's version writes it."""
    names = [name.split("::")[-1].split("[")[0] for name in _ids(target) if name.startswith(f"{test_file}::")]
    source = "".join(f"def {name}():\n    pass\n" for name in names if name.isidentifier()) or "pass\n"
    code = marshal.dumps(compile(source, test_file, "exec"))
    return importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + code
