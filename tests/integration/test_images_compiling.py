"""Programs from source archives: locked by hash, built in a container without a network, the same bytes every time."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from appliance.bundle import cache_home
from appliance.digests import sha256_hex
from appliance.engine.docker import connect
from appliance.engine.locks import RunLocks
from appliance.errors import HostRefused, InputRefused
from appliance.images.archives import read_archive
from appliance.images.build import build
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.images.locking import lock_image
from appliance.images.store import package_store
from appliance.images.workshop import ContainerWorkshop
from tests.images_layers import layer_files

pytestmark = pytest.mark.docker
SHIPPED = Path(__file__).parents[2] / "images"
PROGRAM = b"""#include <stdio.h>
int main(void) { printf("%s %s %s\\n", __DATE__, __TIME__, __FILE__); return 0; }
"""
TOML = """kind = "solver"

[[build]]
source = "toy-program"
version = "1.5"
image = "c"
command = ["sh", "-ec", "COMMAND"]
env = { WORD = "said" }
install = { "out/toy" = "opt/solvers/x/bin/toy" }
"""
COMMAND = "mkdir out; gcc -g -o out/toy src/main.c"


class Index(SimpleHTTPRequestHandler):
    """A folder, as the simple index of PEP 503 is one."""

    def log_message(self, *_: object) -> None:
        """A test's output is its own."""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A page with one source archive; its build script would leave a mark if the host ran it."""
    page = tmp_path / "index" / "toy-program"
    page.mkdir(parents=True)
    content = archive({"src/main.c": PROGRAM, "setup.py": f"open('{tmp_path}/ran', 'w')".encode()})
    (page / "toy_program-1.5.tar.gz").write_bytes(content)
    link = f'<a href="toy_program-1.5.tar.gz#sha256={sha256_hex(content)}">toy_program-1.5.tar.gz</a>'
    (page / "index.html").write_text(f'<a href="toy_program-1.4.tar.gz">older</a>\n{link}\n')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, directory=str(page.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_address[1]}/")
    # The image that it is built in is the engine's; all that these tests keep lies here.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    try:
        yield page
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def archive(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in files.items():
            item = tarfile.TarInfo(f"toy_program-1.5/{path}")
            item.size, item.mtime = len(content), 1_600_000_000
            tar.addfile(item, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


class Watched:
    """The container's workshop, and how often it was asked."""

    def __init__(self, catalog: Catalog) -> None:
        engine = connect()
        library = ImageLibrary(engine, catalog)
        self.asked = 0
        self._workshop = ContainerWorkshop(engine, RunLocks(), lambda pin: library.ensure([pin])[pin.config], silent)

    def build(self, *words: Any) -> None:
        self.asked += 1
        self._workshop.build(*words)


def silent(_: str) -> None:
    """Nobody is told."""


def defined(root: Path, command: str = COMMAND) -> Catalog:
    folder = root / "images" / "x"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image.toml").write_text(TOML.replace("COMMAND", command))
    return Catalog((root / "images", SHIPPED))


def labelled() -> str:
    words = ["docker", "ps", "-aq", "--filter", "label=org.bench-appliance.run"]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    names = [subprocess.run(["docker", "inspect", one], capture_output=True, text=True, check=False) for one in listed]
    return " ".join(name.stdout for name in names)


def test_two_builds_in_two_containers_at_two_times_give_the_same_bytes(index: Path, tmp_path: Path) -> None:
    """Dates and paths that a compiler writes included; the lock pins archive and program (formats 2, `build`)."""
    catalog = defined(tmp_path)
    workshop = Watched(catalog)
    pin = lock_image(catalog, "x", silent, workshop=workshop).after
    sdist, built = sorted(catalog.lock("x").entries, key=lambda entry: entry.kind, reverse=True)
    assert (sdist.kind, sdist.path, built.kind, built.path) == ("sdist", "toy_program-1.5.tar.gz", "built", "out/toy")
    program = (package_store() / built.sha256).read_bytes()
    time.sleep(1.1)
    shutil.rmtree(cache_home())
    again = build(catalog, "x", silent, workshop=workshop)
    assert (again.pin, workshop.asked) == (pin, 2)
    held = layer_files(read_archive(again.archive))["opt/solvers/x/bin/toy"]
    assert (held.content, held.mode) == (program, 0o755)
    epoch = catalog.lock("c").source_date_epoch
    assert time.strftime("%b %e %Y", time.gmtime(epoch)).encode() in program
    assert not (tmp_path / "ran").exists()


def test_what_was_built_once_is_not_built_again(index: Path, tmp_path: Path) -> None:
    """Kept by archive, command, environment and the image that it is built in; another command builds anew."""
    catalog = defined(tmp_path)
    workshop = Watched(catalog)
    lock_image(catalog, "x", silent, workshop=workshop)
    folder = catalog.folder("x")
    (folder / "image.toml").write_text((folder / "image.toml").read_text() + '[env]\nA = "1"\n')
    lock_image(catalog, "x", silent, workshop=workshop)
    assert workshop.asked == 1
    lock_image(defined(tmp_path, f"{COMMAND} -O1"), "x", silent, update=True, workshop=workshop)
    assert workshop.asked == 2


def test_a_build_has_no_network_no_privilege_and_nothing_of_the_host(index: Path, tmp_path: Path) -> None:
    """User 1000, no interface but loopback, a root that cannot be written, its own environment."""
    shown = "id -u; ls /sys/class/net; test -w /usr && echo writable; echo $WORD $SOURCE_DATE_EPOCH $PIP_INDEX_URL; pwd"
    catalog = defined(tmp_path, f"mkdir out; ( {shown} ) > out/toy")
    lock_image(catalog, "x", silent, workshop=Watched(catalog))
    built = next(entry for entry in catalog.lock("x").entries if entry.kind == "built")
    epoch = catalog.lock("c").source_date_epoch
    assert (package_store() / built.sha256).read_text().split() == ["1000", "lo", "said", str(epoch), "/build"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo 'main.c: error: no such thing' >&2; exit 3", "toy-program 1.5 does not build: main.c: error: no such"),
        ("true", "toy-program 1.5 builds no out/toy: cat: out/toy: No such file"),
    ],
)
def test_a_build_that_fails_is_refused_in_its_own_words_and_leaves_nothing(
    index: Path, tmp_path: Path, command: str, words: str
) -> None:
    """Status 3, one line; no lock, no container."""
    catalog = defined(tmp_path, command)
    with pytest.raises(InputRefused) as refused:
        lock_image(catalog, "x", silent, workshop=Watched(catalog))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (catalog.folder("x") / "image.lock.json").exists()
    assert str(tmp_path) not in labelled()


def test_bytes_that_a_build_gives_otherwise_are_refused_by_both_digests(index: Path, tmp_path: Path) -> None:
    """A lock says what is built, bit for bit; a build that differs makes no image (status 3)."""
    catalog = defined(tmp_path, "mkdir out; cat /proc/sys/kernel/random/uuid > out/toy")
    lock_image(catalog, "x", silent, workshop=Watched(catalog))
    locked = next(entry for entry in catalog.lock("x").entries if entry.kind == "built")
    shutil.rmtree(cache_home())
    with pytest.raises(InputRefused, match=rf"builds to [0-9a-f]{{64}}, not to the locked {locked.sha256}"):
        build(catalog, "x", silent, workshop=Watched(catalog))


def test_without_an_engine_only_what_was_built_here_can_be_had(index: Path, tmp_path: Path) -> None:
    """Status 4, and the command that builds it; a kept folder gives it, too (I7)."""
    catalog = defined(tmp_path)
    pin = lock_image(catalog, "x", silent, workshop=Watched(catalog)).after
    built = next(entry for entry in catalog.lock("x").entries if entry.kind == "built")
    kept = tmp_path / "kept"
    kept.mkdir()
    (package_store() / built.sha256).rename(kept / built.sha256)
    shutil.rmtree(cache_home())
    with pytest.raises(HostRefused, match=r"not built here yet.*appliance images build"):
        build(catalog, "x", silent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("APPLIANCE_PACKAGES", str(kept))
        assert build(catalog, "x", silent).pin == pin


def test_a_source_archive_that_is_not_what_its_index_says_is_refused(index: Path, tmp_path: Path) -> None:
    """The hash of the page is held (I8); a version that the page does not list is refused by name."""
    page = index / "index.html"
    page.write_text(page.read_text().replace("#sha256=", "#sha256=0"))
    catalog = defined(tmp_path)
    with pytest.raises(InputRefused, match=r"toy_program-1\.5\.tar\.gz is not what the index says"):
        lock_image(catalog, "x", silent, workshop=Watched(catalog))
    page.write_text("<a href='toy_program-1.4.tar.gz'>older</a>")
    with pytest.raises(InputRefused, match=r"the index has no source archive of toy-program==1\.5"):
        lock_image(catalog, "x", silent, workshop=Watched(catalog))
