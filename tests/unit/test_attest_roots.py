"""roots.toml: which roots are known here, under which pin and level."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from appliance import wire
from attest import statement
from attest.errors import Refused
from attest.roots import KnownRoot, find_root, known_roots, remember_root

ROOT = b'{"mediaType":"x"}'
PIN = hashlib.sha256(ROOT).hexdigest()


def entry(name: str = "lab", path: str = "lab.json", sha256: str = PIN, assurance: str = "private") -> str:
    return f'[[root]]\nname = "{name}"\npath = "{path}"\nsha256 = "{sha256}"\nassurance = "{assurance}"\n'


@pytest.fixture
def roots_file(tmp_path: Path) -> Path:
    (tmp_path / "lab.json").write_bytes(ROOT)
    return tmp_path / "roots.toml"


def test_predicates_and_schemas_share_one_namespace() -> None:
    """Both derive from one constant, which two packages must spell (formats 8)."""
    assert statement.NAMESPACE == wire.NAMESPACE
    assert f"{wire.NAMESPACE}benchmark-result/v1" == statement.PREDICATE_TYPE


def test_a_named_root_is_read_by_its_pin_and_level(roots_file: Path) -> None:
    """A relative path is seen from roots.toml (formats 8)."""
    roots_file.write_text(entry())
    root = find_root(roots_file, "lab")
    assert (root.content, root.sha256, root.assurance, root.name) == (ROOT, PIN, "private", "lab")


def test_a_root_whose_file_was_exchanged_is_refused(roots_file: Path) -> None:
    """The pin stands in roots.toml, not beside the root (V14)."""
    roots_file.write_text(entry())
    (roots_file.parent / "lab.json").write_bytes(ROOT + b" ")
    with pytest.raises(Refused) as caught:
        find_root(roots_file, "lab")
    assert caught.value.reason == "trust_root"


def test_an_unknown_root_is_refused_with_those_that_are_known(roots_file: Path) -> None:
    """The refusal lists the known names, and the mend for `local` is to make it."""
    roots_file.write_text(entry() + entry("other"))
    with pytest.raises(Refused, match="known: lab, other"):
        find_root(roots_file, "lob")
    with pytest.raises(Refused) as caught:
        find_root(roots_file, "local")
    assert caught.value.mend == "appliance trust init"


@pytest.mark.parametrize(
    "content",
    [
        "root = 1",
        "other = 1",
        "[[root]]\nname = 'x'",
        entry() + "extra = 1\n",
        entry(sha256=PIN.upper()),
        entry(sha256="x"),
        entry(assurance="certified"),
        entry() + entry(),
        "[[root]\n",
        "root = ['x']",
    ],
)
def test_an_odd_roots_file_is_refused_with_its_place(roots_file: Path, content: str) -> None:
    """An unknown key, a missing one, a bad pin or level, a name twice, no TOML."""
    roots_file.write_text(content)
    with pytest.raises(Refused) as caught:
        known_roots(roots_file)
    assert caught.value.reason == "trust_root"
    assert str(roots_file) in (caught.value.where or "")


def test_a_root_is_remembered_once_and_a_persons_words_stay(roots_file: Path) -> None:
    """Comments and entries of a person are left alone; the same name for another root is refused."""
    roots_file.write_text("# mine\n" + entry().rstrip("\n"))
    own = KnownRoot("local", roots_file.parent / 'odd "name".json', PIN, "local")
    own.path.write_bytes(ROOT)
    remember_root(roots_file, own)
    remember_root(roots_file, own)
    assert roots_file.read_text().startswith("# mine\n" + entry())
    assert [root.name for root in known_roots(roots_file)] == ["lab", "local"]
    assert known_roots(roots_file)[1].path == own.path
    with pytest.raises(Refused, match="already names another root"):
        remember_root(roots_file, KnownRoot("local", own.path, "0" * 64, "local"))
    moved = KnownRoot("local", roots_file.parent / "elsewhere.json", PIN, "local")
    remember_root(roots_file, moved)
    own.path.unlink()
    with pytest.raises(Refused, match="No such file"):
        remember_root(roots_file, moved)
