"""What a person may write into image.toml, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.errors import InputRefused, UsageRefused
from appliance.images.catalog import Catalog
from appliance.images.definition import read_definition

BUILD = """kind = "solver"
[[build]]
source = "s"
version = "1"
image = "c"
command = ["make"]
CLAUSE
"""


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('packages = ["git"', "image.toml:1", "not TOML"),
        ('packages = ["git"]\npackages = ["git"]', "image.toml:2", "not TOML"),
        ("packages = 3", "image.toml: packages", "tuple"),
        ('packages = ["git"]\ncolour = "red"', "image.toml: colour", "not permitted"),
        ('packages = ["Git"]', "image.toml: packages.0", "match"),
        ('packages = ["git=1.2"]', "image.toml: packages.0", "match"),
        ('packages = ["git", "git"]', "image.toml: (whole file)", "twice"),
        ('kind = "toy"\npackages = ["git"]', "image.toml: kind", "'task', 'solver' or 'model'"),
        ("", "image.toml: (whole file)", "needs packages"),
        ('base = "base"\nwheels = ["six"]', "image.toml: wheels.0", "match"),
        ('base = "base"\nuser = "root"', "image.toml: user", "match"),
        ('base = "base"\n[links]\n"/etc/x" = "y"', "image.toml: links", "without a leading /"),
        ('base = "base"\n[links]\n"a/../../b" = "y"', "image.toml: links", "without a leading /"),
        ('base = "base"\n[[files]]\nsource = "../up"\ntarget = "x"', "image.toml: files.0.source", "leading /"),
        ('kind = "solver"\nbase = "base"', "image.toml: (whole file)", "/opt/solvers"),
        ('kind = "solver"\nfiles = [{source = "a", target = "usr/bin/a"}]', "image.toml: files", "opt/solvers/x/"),
        ('base = "base"\n[env]\n"A B" = "1"', "image.toml: env", "match"),
        ('base = "base"\npython = "base"', "image.toml: (whole file)", "solver's image"),
        ('base = "base"\nneeds = ["git"]', "image.toml: (whole file)", "solver's image"),
        ('kind = "solver"\n[links]\n"usr/bin/a" = "b"', "image.toml: links", "opt/solvers/x/"),
        ('kind = "solver"\n[starters]\n"a/b" = ["c"]', "image.toml: starters", "match"),
        ('kind = "solver"\n[starters]\na = []', "image.toml: starters.a", "at least 1"),
        (BUILD.replace("CLAUSE", 'install = { "/a" = "b" }'), "image.toml: build.0.install", "leading /"),
        (BUILD.replace("CLAUSE", "install = {}"), "image.toml: build.0.install", "at least 1"),
        (BUILD.replace("CLAUSE", 'install = { a = "usr/bin/a" }'), "image.toml: build", "opt/solvers/x/"),
        (BUILD.replace('["make"]', "[]").replace("CLAUSE", 'install = { a = "b" }'), "build.0.command", "at least 1"),
    ],
)
def test_a_malformed_definition_is_refused_in_one_line_with_its_place(
    tmp_path: Path, text: str, place: str, words: str
) -> None:
    """Status 3, file and key or line; never a traceback (issue: bad input)."""
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "image.toml").write_text(text)
    with pytest.raises(InputRefused) as refused:
        read_definition(folder)
    assert place in str(refused.value)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A definition that is not UTF-8 is refused with the place of the first such byte."""
    (tmp_path / "image.toml").write_bytes(b'packages = ["\xff"]')
    with pytest.raises(InputRefused, match="not UTF-8 at byte 13"):
        read_definition(tmp_path)


def test_comments_and_layout_do_not_change_a_definition_and_a_package_does(tmp_path: Path) -> None:
    """specSha256 is over what is asked, not over how it is written (I9)."""
    digests = []
    for number, text in enumerate(
        (
            'packages = ["git"]',
            '# why\npackages = [\n  "git",\n]\n',
            'packages = ["git"]\nkind = "task"',
            'packages = ["gcc"]',
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "image.toml").write_text(text)
        digests.append(read_definition(folder).digest)
    assert digests[0] == digests[1] == digests[2]
    assert digests[3] != digests[0]


def test_an_unknown_image_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    """Status 2; the names that there are are the mend."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one/image.toml").write_text('packages = ["git"]')
    with pytest.raises(UsageRefused, match=r"no image is named 'two'.*known: one"):
        Catalog((tmp_path,)).definition("two")


def test_bases_that_go_in_a_circle_or_do_not_exist_are_refused(tmp_path: Path) -> None:
    """Both are mistakes of the definition (status 3), found before anything is fetched."""
    for name, base in (("a", "b"), ("b", "a"), ("c", "missing")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "image.toml").write_text(f'base = "{base}"\n')
    catalog = Catalog((tmp_path,))
    with pytest.raises(InputRefused, match="a -> b -> a goes in a circle"):
        catalog.chain("a")
    with pytest.raises(InputRefused, match="no image is named 'missing'"):
        catalog.chain("c")


def test_the_first_folder_that_has_a_name_wins(tmp_path: Path) -> None:
    """`./images` before what ships (issue: search order)."""
    for root, package in (("own", "gcc"), ("shipped", "git")):
        (tmp_path / root / "x").mkdir(parents=True)
        (tmp_path / root / "x/image.toml").write_text(f'packages = ["{package}"]')
    catalog = Catalog((tmp_path / "own", tmp_path / "shipped"))
    assert catalog.definition("x").packages == ("gcc",)


def test_keys_that_came_later_count_only_where_they_are_used(tmp_path: Path) -> None:
    """A lock that was made before there was `needs` is as fresh as it was (I9); with it, it is stale."""
    digests = {}
    for name, text in {
        "before": 'kind = "solver"\n',
        "default": 'kind = "solver"\nneeds = []\nredistributable = true\n',
        "used": 'kind = "solver"\nneeds = ["git"]\n',
        "forbidden": 'kind = "solver"\nredistributable = false\n',
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "image.toml").write_text(text)
        digests[name] = read_definition(folder).digest
    assert digests["before"] == digests["default"]
    assert len(set(digests.values())) == 3
    # As the first release of this tool wrote it into locks.
    shipped = Catalog((Path(__file__).parents[2] / "images",))
    assert shipped.definition("c").digest == "6cb30da5da07478e6accb822491af610d55537da9c0cb1e9c28b56c4c0e45fe4"
