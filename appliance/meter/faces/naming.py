"""What a cgroup is called to a person: the container's name, or the run, trial and role of one of ours. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from appliance.meter.faces.picture import CgroupView

_CONTAINER: Final = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_SHORT: Final = 12
_RUNTIMES: Final = (("libpod", "podman"), ("cri-containerd", "containerd"), ("crio", "cri-o"), ("docker", "docker"))


@dataclass(frozen=True)
class Name:
    id: str
    """A container's 64 hex digits; of one of our cgroups its path without the base: `r1/00003/solver`."""
    shown: str
    runtime: str


@dataclass(frozen=True)
class Known:
    """What an engine says of one of its containers."""

    name: str
    runtime: str


def container_of(path: str) -> str | None:
    """The id of the container that this cgroup is one of; None where its path names none."""
    found = _CONTAINER.search(path)
    return found[1] if found else None


def name_of(view: CgroupView, names: Mapping[str, Known]) -> Name:
    """`names`: by id, where an engine tells them; the path alone tells the id, and often the runtime."""
    container = container_of(view.path)
    if container is not None:
        known = names.get(container)
        if known is not None:
            return Name(container, known.name, known.runtime)
        runtime = next((word for mark, word in _RUNTIMES if mark in view.path), "unknown")
        return Name(container, container[:_SHORT], runtime)
    if view.role == "meter":
        return Name("meter", "meter", "bench-appliance")
    parts = [view.run, None if view.trial is None else f"{view.trial:05d}", view.role]
    shown = "/".join(part for part in parts if part)
    return Name(shown, shown, "bench-appliance")
