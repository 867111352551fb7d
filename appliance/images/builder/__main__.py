"""The builder alone, for Nix: `python3 -m appliance.images.builder IMAGES NAME STORE OUT`. Standard library only."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from appliance.errors import Refusal
from appliance.images.builder.oci import reference, write_archive
from appliance.images.builder.recipe import build, read_recipe


def main(images: Path, name: str, store: Path, out: Path) -> None:
    """Write `OUT/image.tar` and `OUT/pin.json`."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        image = build(read_recipe(images, name), store, Path(scratch))
        with (out / "image.tar").open("wb") as stream:
            write_archive(image, reference(name, image.identity.config), stream)
    identity = image.identity
    pin = {"config": identity.config, "manifest": identity.manifest, "diffIds": list(identity.diff_ids)}
    (out / "pin.json").write_text(json.dumps(pin, sort_keys=True) + "\n")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    except Refusal as refusal:
        sys.exit(f"{refusal}")
