"""Whether a task's image holds what a solver's image says that it needs: asked of its layers, whoever made them."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence

from appliance.errors import InputRefused
from appliance.images.builder.oci import Image, Layer

_STATUS = "var/lib/dpkg/status"
_INSTALLED = re.compile(r"^Package: (\S+)\n(?:.+\n)*?Status: \S+ \S+ installed$", re.MULTILINE)


def lacking(image: Image, needs: Sequence[str]) -> list[str]:
    """Those of `needs` that the image has not: Debian packages by name, files and folders by absolute path.

    A path is looked for as it stands in the layers: not through links of its folders.
    """
    if not needs:
        return []
    wanted = {need.strip("/") for need in needs if need.startswith("/")}
    left, status, hidden = set(wanted), None, set[str]()
    for layer in reversed(image.layers):
        here: set[str] = set()
        for name, content in _members(layer, None if status is not None or _hides(hidden, _STATUS) else _STATUS):
            if content is not None:
                status = content
            folder, _, last = name.rpartition("/")
            if last == ".wh..wh..opq":
                here.add(folder)
            elif last.startswith(".wh."):
                here.add(f"{folder}/{last.removeprefix('.wh.')}".lstrip("/"))
            elif name in left and not _hides(hidden, name):
                left.discard(name)
        hidden |= here
    installed = set(_INSTALLED.findall(status or ""))
    return [need for need in needs if (need.strip("/") in left if need.startswith("/") else need not in installed)]


def refuse_lacking(task: str, image: Image, solver: str, needs: Sequence[str]) -> None:
    """Raises InputRefused naming both images, before anything is composed of them."""
    gone = lacking(image, needs)
    if gone:
        raise InputRefused(
            f"image {task!r} has no {', no '.join(gone)}, which image {solver!r} needs",
            where=f"task image {task}",
            mend=f"choose a task image that holds {'it' if len(gone) == 1 else 'them'}, or another solver",
        )


def _hides(hidden: Iterable[str], name: str) -> bool:
    """Whether a layer above removed the path, or a folder that it lies in."""
    return any(name == gone or name.startswith(f"{gone}/") for gone in hidden)


def _members(layer: Layer, wanted: str | None) -> Iterator[tuple[str, str | None]]:
    """Path of each member, and the text of `wanted`."""
    with layer.content.path.open("rb") as stream:
        stream.seek(layer.content.offset)
        with tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                name = member.name.removeprefix("./").strip("/")
                content = tar.extractfile(member) if name == wanted and member.isfile() else None
                yield name, content.read().decode("utf-8", "replace") if content else None
