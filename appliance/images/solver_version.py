"""The version of the program that a solver's image is for: of the first package that its definition asks for."""

from __future__ import annotations

from appliance.images.catalog import Catalog


def locked_version(image: str, catalog: Catalog | None = None) -> str | None:
    """None where the image's own program comes from no package (files of its folder)."""
    found = catalog or Catalog.default()
    definition = found.definition(image)
    entries = found.lock(image).entries
    if definition.npm:
        place = f"node_modules/{definition.npm[0].rpartition('@')[0]}"
        return next((entry.version for entry in entries if (entry.kind, entry.path) == ("npm", place)), None)
    if definition.wheels:
        name = definition.wheels[0].partition("==")[0].replace("_", "-").lower()
        return next((entry.version for entry in entries if (entry.kind, entry.name) == ("wheel", name)), None)
    return None
