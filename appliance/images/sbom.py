"""The bill of materials of an image, from its lock alone (row I13): CycloneDX 1.5, the same bytes every time."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from appliance.images.builder.recipe import Locked, Recipe
from appliance.images.lock import ImageLock
from appliance.wire import NAMESPACE

_OURS = "bench-appliance"


def bill_of_materials(lock: ImageLock, recipe: Recipe) -> dict[str, Any]:
    """Every package of the image and its bases with version, sha256 and package URL."""
    digest = lock.pin.config.removeprefix("sha256:")
    moment = datetime.fromtimestamp(lock.source_date_epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{NAMESPACE}images/{digest}')}",
        "version": 1,
        "metadata": {
            "timestamp": moment,
            "component": {
                "type": "container",
                "bom-ref": lock.pin.config,
                "name": recipe.name,
                "version": lock.pin.config,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            },
            "properties": [{"name": f"{_OURS}:redistributable", "value": str(recipe.redistributable).lower()}],
        },
        "components": [_component(package) for package in recipe.all_packages],
    }


def _component(package: Locked) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "file" if package.kind in ("file", "built") else "library",
        "bom-ref": f"{package.kind}:{package.path if package.kind == 'npm' else package.name}@{package.sha256[:16]}",
        "name": package.name,
        "version": package.version,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }
    name, version = quote(package.name, safe=""), quote(package.version, safe="")
    if package.kind == "deb":
        architecture = package.path.rpartition("_")[2].removesuffix(".deb")
        component["purl"] = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
    elif package.kind == "wheel":
        component["purl"] = f"pkg:pypi/{name}@{version}"
    elif package.kind == "npm":
        # A scope is the namespace of a package URL; its slash stays.
        component["purl"] = f"pkg:npm/{quote(package.name, safe='/')}@{version}"
    elif package.kind == "sdist":
        component["purl"] = f"pkg:pypi/{name}@{version}"
    return component
