"""What is taken of a solution, and what stays as it was (formats 7)."""

from __future__ import annotations

import pytest

from appliance.ports import TreeEntry
from appliance.trials.grading.restored import Sifted, matches, sift
from appliance.trials.grading.tree import Node, after, shown

PRISTINE = {
    b"app.py": Node("644", b"broken\n"),
    b"lib/util.py": Node("644", b"x\n"),
    b"random.py": Node("644", b"ours, and there from the start\n"),
    b"tests/test_app.py": Node("644", b"the test\n"),
    b"tests/conftest.py": Node("644", b"pristine\n"),
    b"pyproject.toml": Node("644", b'[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n'),
    b"package.json": Node("644", b'{"name": "a", "scripts": {"test": "node t.js"}}'),
    b"Makefile": Node("644", b"all:\n"),
}
MODULES = frozenset({"json", "pytest", "random", "subprocess"})


def sifted(*entries: TreeEntry, protected: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Sifted:
    return sift(
        PRISTINE,
        entries,
        test_files=("tests/test_app.py",),
        protected=protected,
        allow=allow,
        modules=lambda: MODULES,
    )


def file(path: str, content: str = "hostile\n") -> TreeEntry:
    return TreeEntry(path.encode(), "file", False, content.encode())


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_app.py", "conftest.py", "deep/er/conftest.py", "sitecustomize.py", "usercustomize.py", "a.pth",
        "lib/x.pyc", "__pycache__/app.cpython-311.pyc", "lib/__pycache__/x", "pytest.ini", "tox.ini", "setup.cfg",
        ".coveragerc", ".npmrc", "node_modules/a/index.js", "sub/node_modules/a.js", "Makefile", "GNUmakefile",
        "CMakeLists.txt", "configure", ".git/hooks/pre-commit", "json.py", "json/__init__.py", "json/x/y.py",
        "tests/subprocess.py", "tests/pytest/__init__.py", "pytest.cpython-311-x86_64-linux-gnu.so",
        "sitecustomize/__init__.py", "conftest/__init__.py",
    ],
)  # fmt: skip
def test_what_runners_load_unasked_stays_as_it_was(path: str) -> None:
    """Added or changed, such a file is restored and listed; the rest of the solution is taken (H3, J10)."""
    seen = sifted(file(path), file("app.py", "fixed\n"))
    assert seen.restored == (path.encode(),)
    assert [entry.path for entry in seen.allowed] == [b"app.py"]


@pytest.mark.parametrize(
    "path", ["app.py", "lib/json.py", "random.py", "lib/new.py", "data/json/x", "jsonx.py", "docs/Makefile.md", "a.git"]
)
def test_what_is_no_such_file_is_taken(path: str) -> None:
    """A module's name elsewhere, or there from the start, is the solution's own business (J10)."""
    assert sifted(file(path)).restored == ()


def test_a_link_named_like_a_module_is_kept_out() -> None:
    """A link may lead to a folder, and so be a package (J10)."""
    assert sifted(TreeEntry(b"json", "link", content=b"lib")).restored == (b"json",)


def test_deleting_such_a_file_is_undone() -> None:
    """A missing conftest.py or test changes a run as well as a new one (J09, J10)."""
    seen = sifted(TreeEntry(b"tests", "deleted"))
    assert seen.restored == (b"tests/conftest.py", b"tests/test_app.py")
    assert after(PRISTINE, seen.allowed) == PRISTINE


@pytest.mark.parametrize("kind", ["link", "file"])
def test_what_replaces_a_folder_of_tests_gives_way(kind: str) -> None:
    """A link or a file in place of tests/ would lead the tests elsewhere (J09)."""
    seen = sifted(TreeEntry(b"tests", kind, content=b"/tmp"))  # type: ignore[arg-type]
    assert b"tests" in seen.restored
    assert after(PRISTINE, seen.allowed) == PRISTINE


def test_allow_lets_a_listed_file_through_but_never_a_test() -> None:
    """`allow` opens section 7's list for a task; test files and `protected` stay closed (formats 1)."""
    seen = sifted(file("Makefile"), file("tests/test_app.py"), file("lib/util.py"), allow=("*",), protected=("lib/**",))
    assert [entry.path for entry in seen.allowed] == [b"Makefile"]
    assert seen.restored == (b"lib/util.py", b"tests/test_app.py")


@pytest.mark.parametrize(
    ("path", "content", "restored"),
    [
        ("pyproject.toml", '[project]\nname = "b"\n[tool.pytest.ini_options]\naddopts = "-q"\n', False),
        ("pyproject.toml", '[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-p evil"\n', True),
        ("pyproject.toml", '[tool.pytest-env]\nx = "1"\n', True),
        ("pyproject.toml", "not toml [", True),
        (
            "pyproject.toml",
            f'{".".join("a" * 99)} = 1\n[project]\nname = "a"\n[tool.pytest.ini_options]\naddopts = "-q"\n',
            True,  # a key that could take the parser hours: nobody asks what else it says
        ),
        ("sub/pyproject.toml", '[tool.ruff]\nx = "1"\n', False),
        ("package.json", '{"name": "b", "scripts": {"test": "node t.js"}}', False),
        ("package.json", '{"name": "a", "scripts": {"test": "true"}}', True),
        ("package.json", '{"name": "a"}', True),
        ("package.json", "[" * 100_000, True),
        ("sub/package.json", '{"type": "module"}', False),
    ],
)
def test_configuration_is_kept_out_where_runners_read_it(path: str, content: str, restored: bool) -> None:
    """Of pyproject.toml and package.json only the parts that runners read are held (J10)."""
    assert (sifted(file(path, content)).restored == (path.encode(),)) is restored


def test_configuration_behind_a_link_is_kept_out() -> None:
    """What a link leads to is not read here, whatever its target's name reads like (J10)."""
    assert sifted(TreeEntry(b"sub/pyproject.toml", "link", content=b"a = 1")).restored == (b"sub/pyproject.toml",)


def test_modules_are_asked_for_only_where_it_matters() -> None:
    """A solution that adds no file costs no look into the image."""

    def modules() -> frozenset[str]:
        raise AssertionError("asked")

    seen = sift(PRISTINE, [file("app.py"), file("Makefile")], test_files=(), protected=(), allow=(), modules=modules)
    assert seen.restored == (b"Makefile",)


@pytest.mark.parametrize(
    ("path", "glob", "fits"),
    [
        ("Makefile", "Makefile", True), ("a/Makefile", "Makefile", True), ("a/Makefile", "/Makefile", False),
        ("a/b/c.py", "a/*.py", False), ("a/b/c.py", "a/**", True), ("a/c.py", "a/**/c.py", True),
        ("a/x/y/c.py", "a/**/c.py", True), ("a/c.py", "**/c.py", True), ("ab", "a?", True), ("a/b", "a?b", False),
        ("a1", "a[0-9]", True), ("a]", "a[!0-9]", True), ("a\nb", "a*", True), ("a.b", "a+b", False),
        ("dir/x", "dir/", True), ("a[", "a[", True),
    ],
)  # fmt: skip
def test_globs_read_as_in_gitignore(path: str, glob: str, fits: bool) -> None:
    """A name at any depth, a path from the root, `**` over folders (formats 1: protected, allow)."""
    assert matches(path, (glob,)) is fits


def test_paths_are_shown_as_text_whatever_their_bytes() -> None:
    """UTF-8 stays, other bytes and control characters are escaped: JSON and terminals stay whole (H19)."""
    assert shown("é/x".encode()) == "é/x"
    assert shown(b"a\xff\n\x1b[31m") == "a\\xff\\x0a\\x1b[31m"
