"""Images out of images, without a build: layers put on layers, and a layer from a tree of the host (rows I10, I26)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from appliance.digests import tree_entries
from appliance.images.builder.oci import Image, Layer, canonical, digest_of, file_as_slice
from appliance.images.builder.recipe import NOT_REDISTRIBUTABLE, layer_file
from appliance.images.builder.rootfs import Tree, add_parents
from appliance.images.builder.tar import Entry

_CREATOR = "bench-appliance"


def compose(task: Image, solver: Image) -> Image:
    """The solver's layers on the task's image. What the task's configuration says stands; the solver's environment
    adds to it. Both are named by digest in labels.
    """
    env = _variables(solver.settings)
    labels = {
        "org.bench-appliance.task-image": digest_of(task.config),
        "org.bench-appliance.solver-image": digest_of(solver.config),
    }
    theirs = solver.settings.get("Labels") or {}
    labels |= {key: theirs[key] for key in (NOT_REDISTRIBUTABLE,) if key in theirs}
    return _extended(task, solver.layers, env, labels)


def with_tree(image: Image, tree: Path, target: str, scratch: Path, *, owner: int = 0) -> Image:
    """`image` and one layer that holds `tree` at `target` (relative to the root), owned by user and group `owner`.

    Two checkouts of the same tree make the same pin: contents, the executable bit and link targets count, clocks,
    owners and the umask do not. Raises InputRefused for what git could not hold either.
    """
    layer = tree_layer(tree, target, scratch, epoch=_epoch(image), owner=owner)
    return _extended(image, (layer,), {}, {"org.bench-appliance.base-image": digest_of(image.config)})


def tree_layer(tree: Path, target: str, scratch: Path, *, epoch: int, owner: int = 0) -> Layer:
    """The folders above `target` are root's, 755; `scratch` keeps the layer's bytes."""
    entries: Tree = {target: Entry(target, "directory", 0o755, owner, owner, epoch)}
    for relative, kind, value in tree_entries(tree):
        name, path = f"{target}/{relative}", tree / relative
        for folder in _folders_between(target, name):
            entries.setdefault(folder, Entry(folder, "directory", 0o755, owner, owner, epoch))
        if kind == "link":
            entries[name] = Entry(name, "symlink", 0o777, owner, owner, epoch, value)
        else:
            mode = 0o755 if kind == "755" else 0o644
            entries[name] = Entry(name, "file", mode, owner, owner, epoch, content=file_as_slice(path))
    add_parents(entries, epoch)
    return layer_file(entries, scratch)


def _folders_between(target: str, name: str) -> list[str]:
    folders, parent = [], name.rpartition("/")[0]
    while parent != target:
        folders.append(parent)
        parent = parent.rpartition("/")[0]
    return folders


def _extended(image: Image, layers: Sequence[Layer], env: Mapping[str, str], labels: Mapping[str, str]) -> Image:
    config: dict[str, Any] = json.loads(image.config)
    settings = config.setdefault("config", {}) or {}
    merged = {**env, **_variables(settings)}
    settings["Env"] = [f"{key}={merged[key]}" for key in sorted(merged)]
    settings["Labels"] = {**(settings.get("Labels") or {}), **labels}
    config["config"] = settings
    config["rootfs"]["diff_ids"] += [layer.digest for layer in layers]
    steps = [{"created": config["created"], "created_by": _CREATOR} for _ in layers]
    config["history"] = [*(config.get("history") or ()), *steps]
    return Image(canonical(config), (*image.layers, *layers))


def _variables(settings: Mapping[str, Any]) -> dict[str, str]:
    return dict(variable.split("=", 1) for variable in settings.get("Env") or ())


def _epoch(image: Image) -> int:
    """Whole seconds: registries' images carry nanoseconds."""
    created = str(json.loads(image.config)["created"])
    return int(datetime.fromisoformat(f"{created[:19]}+00:00").timestamp())
