"""roots.toml: which roots are known here, under which pin and level."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from appliance import wire
from attest import canonical, statement
from attest.errors import Refused
from attest.roots import Assurance, KnownRoot, PinnedRoot, find_root, known_roots, remember_root, repin_root
from attest.trust.local import open_or_init

ROOT = b'{"mediaType":"x"}'
PIN = hashlib.sha256(ROOT).hexdigest()
OTHER = b'{"mediaType":"y"}'
OTHER_PIN = hashlib.sha256(OTHER).hexdigest()


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
    assert caught.value.mend is not None
    assert caught.value.mend.startswith("appliance trust init, for what you sign; ")
    assert "--trusted-root" in caught.value.mend


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
        entry(path="~nobody-of-this-name/lab.json"),
        entry(path="a\\u0000b"),
        entry(name="lab\\nlocal: public, as pinned"),
        entry() + entry("other", assurance="public"),
    ],
)
def test_an_odd_roots_file_is_refused_with_its_place(roots_file: Path, content: str) -> None:
    """An unknown key, a missing one, a bad pin or level, a name twice, a root at two levels, nobody's home, no TOML."""
    roots_file.write_text(content)
    with pytest.raises(Refused) as caught:
        known_roots(roots_file)
    assert caught.value.reason == "trust_root"
    assert str(roots_file) in (caught.value.where or "")


def test_a_root_is_remembered_once_and_a_persons_words_stay(roots_file: Path) -> None:
    """Comments and entries of a person are left alone; the same name for another root is refused."""
    roots_file.write_text("# mine\n" + entry().rstrip("\n"))
    own = KnownRoot("local", roots_file.parent / 'odd "name".json', OTHER_PIN, "local")
    own.path.write_bytes(OTHER)
    remember_root(roots_file, own)
    remember_root(roots_file, own)
    assert roots_file.read_text().startswith("# mine\n" + entry())
    assert [root.name for root in known_roots(roots_file)] == ["lab", "local"]
    assert known_roots(roots_file)[1].path == own.path
    with pytest.raises(Refused, match="already names another root"):
        remember_root(roots_file, KnownRoot("local", own.path, "0" * 64, "local"))
    moved = KnownRoot("local", roots_file.parent / "elsewhere.json", OTHER_PIN, "local")
    remember_root(roots_file, moved)
    own.path.unlink()
    with pytest.raises(Refused, match="No such file"):
        remember_root(roots_file, moved)


def test_a_root_is_not_remembered_at_another_level(roots_file: Path) -> None:
    """The level is what stands in roots.toml, whatever is asked for later (V14)."""
    roots_file.write_text(entry())
    with pytest.raises(Refused, match="stands there as private, not public") as refused:
        remember_root(roots_file, KnownRoot("lab", roots_file.parent / "lab.json", PIN, "public"))
    assert refused.value.mend == 'assurance = "public" in its entry, if you mean it'
    assert roots_file.read_text() == entry()


def test_an_entry_that_the_file_cannot_take_leaves_it_as_it_was(roots_file: Path) -> None:
    """A list in one line takes no [[root]] after it: what would break every later command is not written (V14)."""
    text = f'root = [{{name="lab", path="lab.json", sha256="{PIN}", assurance="private"}}]\n'
    roots_file.write_text(text)
    (roots_file.parent / "other.json").write_bytes(OTHER)
    other = KnownRoot("other", roots_file.parent / "other.json", OTHER_PIN, "private")
    with pytest.raises(Refused, match="'other' cannot be written into it") as refused:
        remember_root(roots_file, other)
    assert OTHER_PIN in (refused.value.mend or "")
    assert roots_file.read_text() == text
    with pytest.raises(Refused, match="'lab' cannot be written into it"):
        repin_root(roots_file, KnownRoot("lab", other.path, OTHER_PIN, "private"), PIN)
    assert roots_file.read_text() == text


def test_a_newer_root_takes_the_older_ones_place_in_its_own_entry_alone(roots_file: Path) -> None:
    """Another name for the old root keeps it; the path goes along where the digest is part of it (V14)."""
    folder = roots_file.parent
    for content, pin in ((ROOT, PIN), (OTHER, OTHER_PIN)):
        (folder / pin).mkdir()
        (folder / pin / "root.json").write_bytes(content)
    own = entry(path=f"{PIN}/root.json").replace("\nsha256", "  # as of May\nsha256")
    roots_file.write_text("# mine\n" + entry("lab-2026") + own + entry("lab-2025"))
    newer = KnownRoot("lab", folder / OTHER_PIN / "root.json", OTHER_PIN, "private")
    repin_root(roots_file, newer, PIN)
    assert roots_file.read_text() == "# mine\n" + entry("lab-2026") + own.replace(PIN, OTHER_PIN) + entry("lab-2025")
    assert known_roots(roots_file)[1] == newer
    before = roots_file.read_bytes()
    with pytest.raises(Refused, match="No such file"):
        repin_root(roots_file, KnownRoot("lab", folder / "x", "0" * 64, "private"), OTHER_PIN)
    assert roots_file.read_bytes() == before


@pytest.mark.parametrize("level", ["private", "public"])
def test_the_root_of_an_embedded_instance_stands_for_nobody_but_its_machine(tmp_path: Path, level: Assurance) -> None:
    """Its authority calls itself self-asserted, and whoever writes its root anew has no key to make it say otherwise:
    no level above `local`, by roots.toml or any other way (V14, P12)."""
    root = open_or_init(tmp_path / "local").root
    value = json.loads(root.content)
    for authority in (*value["certificateAuthorities"], *value["timestampAuthorities"]):
        authority["subject"] = {"organization": "lab", "commonName": "lab"}
    renamed = canonical.dumps(value).replace(b"local.invalid", b"lab.example")
    for content in (root.content, renamed):
        pin = hashlib.sha256(content).hexdigest()
        with pytest.raises(Refused, match="nobody else's word") as refused:
            PinnedRoot("lab", content, pin, level)
        assert refused.value.reason == "trust_root"
        PinnedRoot("lab", content, pin, "local")
    roots_file = tmp_path / "roots.toml"
    roots_file.write_text(entry(path="local/trusted_root.json", sha256=root.sha256, assurance=level))
    with pytest.raises(Refused, match="nobody else's word"):
        find_root(roots_file, "lab")
