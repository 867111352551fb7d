"""Images of a registry, by manifest digest and never by tag (rows I6, I11, H11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from appliance import bundle
from appliance.errors import InputRefused
from appliance.files import write_atomically
from appliance.pins import REFERENCE, Pin
from appliance.records.plan import PlannedTask


@dataclass(frozen=True)
class Reference:
    """`text` names registry, repository and manifest; what answers to it can only be one image."""

    text: str
    digest: str
    """Of the registry's manifest, or of its list of manifests; it stands in the pin as `manifest`."""


def parsed(name: str) -> Reference | None:
    return Reference(name, name.rpartition("@")[2]) if REFERENCE.fullmatch(name) else None


def references_of(planned: Iterable[PlannedTask]) -> dict[str, Reference]:
    """Manifest digest -> where a plan says that it is."""
    found = (parsed(task.spec.image) for task in planned)
    return {reference.digest: reference for reference in found if reference}


def remembered(reference: Reference) -> Pin | None:
    """The pin that this manifest turned out to have here: a digest never comes to mean another image."""
    path = _note(reference)
    try:
        pin = Pin.from_json(path.read_bytes(), str(path))
    except (OSError, InputRefused):
        return None
    return pin if pin.manifest == reference.digest else None


def remember(reference: Reference, pin: Pin) -> None:
    write_atomically(_note(reference), pin.canonical())


def _note(reference: Reference) -> Path:
    return bundle.cache_home() / "references" / f"{reference.digest.removeprefix('sha256:')}.json"
