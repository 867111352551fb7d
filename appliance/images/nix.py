"""Builds through Nix (rows I2, I24): the same lock and the same builder, run by Nix's sandbox; hence the same pin."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Final, Literal

from appliance.errors import HostRefused, UsageRefused
from appliance.images import archives
from appliance.images.build import Built, check_pin
from appliance.images.catalog import Catalog
from appliance.images.lock import pin_of
from appliance.images.room import writing_to
from appliance.images.store import Report, scratch_home
from appliance.scratch import scratch_in

NixProgram = Literal["nix", "nix-portable"]
_MEND: Final = {
    "nix": "apt-get install nix-bin, or --builder native",
    "nix-portable": "put the nix-portable program on PATH, or use --builder native",
}
_KINDS: Final = ("deb", "wheel", "file")
_FEATURES = ("--extra-experimental-features", "nix-command flakes")


@writing_to()
def build_with_nix(program: NixProgram, catalog: Catalog, name: str, report: Report) -> Built:
    """Raises UsageRefused for an image that Nix cannot build, HostRefused where the program or the flake is missing or
    the build fails, InputRefused for another pin.
    """
    lock = catalog.lock(name)
    other = next((one.kind for one in catalog.recipe(name).needed_packages if one.kind not in _KINDS), None)
    if other:
        raise UsageRefused(f"{name} has {other} packages, which Nix does not build", mend="use --builder native")
    if shutil.which(program) is None:
        raise HostRefused(f"{program} is not on PATH", mend=_MEND[program])
    flake = catalog.folder(name).resolve().parents[1]
    if not (flake / "flake.nix").is_file():
        raise HostRefused(
            "only a checkout has a flake.nix to build from", where=str(flake), mend="use --builder native"
        )
    report(f"building {name} with {program}")
    with scratch_in(scratch_home()) as scratch:
        # The link roots the build against collection until its archive is kept.
        link = scratch / "built"
        command = ["nix"] if program == "nix" else ["nix-portable", "nix"]
        ended = subprocess.run(
            [*command, *_FEATURES, "build", f"{flake}#image-{name}", "--out-link", str(link)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if ended.returncode:
            words = [line for line in ended.stderr.splitlines() if line.startswith("error")]
            raise HostRefused(
                f"{program} build failed: {(words or ended.stderr.splitlines() or ['no word'])[-1]}",
                mend=f"see it whole with `{' '.join(command)} build {flake}#image-{name} --print-build-logs`",
            )
        image = archives.read_archive(link / "image.tar")
        pin = pin_of(image.identity)
        check_pin(catalog, name, lock, pin)
        said = json.loads((link / "pin.json").read_text())
        if said != pin.json_value():
            raise HostRefused("the pin that Nix's build wrote is not its archive's", mend="report this as a bug")
        archive = archives.archive_path(pin.config)
        archive.parent.mkdir(parents=True, exist_ok=True)
        draft = scratch / "image.tar"
        shutil.copyfile(link / "image.tar", draft)
        draft.replace(archive)
    return Built(name, pin, archive, made=True)
