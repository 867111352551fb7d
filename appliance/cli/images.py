"""`appliance images`: definitions, locks, builds, and what the engine holds of them."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from appliance.cli import output
from appliance.cli.listing import show_listing

if TYPE_CHECKING:
    from appliance.images.build import Built
    from appliance.images.catalog import Catalog
    from appliance.images.compiling import Workshop
    from appliance.images.nix import NixProgram

app = typer.Typer()

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Images; all that are known by default.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="An image.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


class Builder(StrEnum):
    """Who runs the builder; the pin is the same."""

    NATIVE = "native"
    NIX = "nix"
    NIX_PORTABLE = "nix-portable"


@app.command("list")
def list_images(as_json: AsJson = False) -> None:
    """What is defined, with its pin and whether its lock is fresh."""
    from appliance.images.archives import cached

    catalog = _catalog()

    def read(name: str) -> dict[str, Any]:
        definition, lock = catalog.definition(name), catalog.lock(name)
        row = {"kind": definition.kind, "base": definition.base, "packages": len(lock.entries)}
        row |= {"redistributable": definition.redistributable}
        return row | {"pin": lock.pin.json_value(), "built": cached(lock.pin) is not None}

    def line(row: dict[str, Any]) -> str:
        state = row["problem"] or f"{row['pin']['config'][:19]}  {'built' if row['built'] else 'locked'}"
        forbidden = "" if row.get("redistributable", True) else "  not to be passed on"
        return f"{row['name']:<14} {row.get('kind', '?'):<7} {row.get('base') or '-':<8} {state}{forbidden}"

    found = [({"name": name, "folder": str(catalog.folder(name))}, partial(read, name)) for name in catalog.names()]
    show_listing(found, line, as_json=as_json)


@app.command()
def lock(
    names: Names = None,
    update: Annotated[bool, typer.Option("--update", help="Take the versions that the archive has now.")] = False,
    as_json: AsJson = False,
) -> None:
    """Resolve, fetch, build and pin; without --update no locked version changes."""
    from appliance.images.locking import lock_image

    catalog = _catalog()
    done = []
    for name in _bases_first(catalog, names):
        locking = lock_image(catalog, name, output.note, update=update, workshop=_workshop(catalog, name))
        done.append(locking)
        if not as_json:
            for change in locking.changes:
                output.line(f"{name}: {change}")
            was = "" if locking.before in (None, locking.after) else f" (was {locking.before.config})"
            output.line(f"{name}: {locking.after.config}{was}")
    if as_json:
        output.emit_json(
            [
                {
                    "name": locking.name,
                    "changes": list(locking.changes),
                    "before": locking.before.json_value() if locking.before else None,
                    "after": locking.after.json_value(),
                }
                for locking in done
            ]
        )


@app.command()
def build(
    names: Names = None,
    builder: Annotated[Builder, typer.Option(help="Who runs the builder; the pin is the same.")] = Builder.NATIVE,
    again: Annotated[bool, typer.Option("--again", help="Build also what the cache holds.")] = False,
    as_json: AsJson = False,
) -> None:
    """From the lock to an archive whose pin must be the lock's."""
    from appliance.images.build import build as native
    from appliance.images.nix import build_with_nix

    catalog = _catalog()
    done: list[Built] = []
    for name in _bases_first(catalog, names):
        if builder is Builder.NATIVE:
            built = native(catalog, name, output.note, again=again, workshop=_workshop(catalog, name))
        else:
            program: NixProgram = "nix" if builder is Builder.NIX else "nix-portable"
            built = build_with_nix(program, catalog, name, output.note)
        done.append(built)
        if not as_json:
            output.line(f"{name}: {built.pin.config} {'built' if built.made else 'built already'}, {built.archive}")
            if not catalog.definition(name).redistributable:
                output.note(f"{name}: its licence forbids passing the archive on")
    if as_json:
        output.emit_json(
            [{"name": b.name, "pin": b.pin.json_value(), "archive": str(b.archive), "made": b.made} for b in done]
        )


@app.command()
def load(names: Names = None, as_json: AsJson = False) -> None:
    """See that the engine holds them: from the cache, else rebuilt from the lock."""
    from appliance.engine.docker import connect
    from appliance.images.library import ImageLibrary

    catalog = _catalog()
    library = ImageLibrary(connect(), catalog, output.note, workshop=partial(_workshop, catalog))
    pins = {name: library.pin(name)[0] for name in _bases_first(catalog, names)}
    found = library.ensure(pins.values())
    if as_json:
        output.emit_json([{"name": name, "id": found[pin.config]} for name, pin in pins.items()])
        return
    for name, pin in pins.items():
        output.line(f"{name}: {found[pin.config]}")


@app.command()
def verify(names: Names = None, as_json: AsJson = False) -> None:
    """Rebuild from the locked packages and compare with the pin; check what the cache holds byte by byte."""
    from appliance.errors import InputRefused
    from appliance.images.archives import cached, damaged_layers
    from appliance.images.build import build as native

    catalog = _catalog()
    rows = []
    for name in _bases_first(catalog, names):
        pin = catalog.lock(name).pin
        image = cached(pin)
        damaged = damaged_layers(image) if image else ()
        if damaged:
            raise InputRefused(
                f"the cached archive of {name} is damaged in {', '.join(damaged)}",
                where=str(image.layers[0].content.path) if image else None,
                mend=f"appliance images build --again {name}",
            )
        native(catalog, name, output.note, again=True, workshop=_workshop(catalog, name))
        rows.append({"name": name, "pin": pin.json_value(), "cached": image is not None, "rebuilt": True})
        if not as_json:
            output.line(f"{name}: {pin.config} rebuilt, equal to its pin")
    if as_json:
        output.emit_json(rows)


@app.command()
def sbom(
    name: Name,
    as_json: Annotated[bool, typer.Option("--json", help="It is JSON in any case.")] = False,  # noqa: ARG001
) -> None:
    """CycloneDX JSON of every package of the image and its bases, from the lock."""
    from appliance.images.sbom import bill_of_materials

    catalog = _catalog()
    output.emit_json(bill_of_materials(catalog.lock(name), catalog.recipe(name)))


@app.command("weights")
def show_weights(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Fetch and check these; without one, list all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Weights of local models: what is known by name, from where, under which licence; by NAME, had ahead of a run."""
    from appliance.images.weights import known_models, weights

    here = {name: weights(name, report=output.note) for name in names or ()}
    rows: list[dict[str, Any]] = [
        {
            "name": model.name,
            "what": model.what,
            "sha256": model.sha256,
            "bytes": model.bytes,
            "licence": model.licence,
            "remark": model.remark,
            "source": f"{model.wheel.name}=={model.wheel.version}" if model.wheel else None,
            "path": str(model.kept) if model.kept.is_file() else None,
        }
        for model in known_models()
        if not here or model.name in here
    ]
    if as_json:
        output.emit_json(rows)
        return
    for row in rows:
        state = row["path"] or (f"from {row['source']}" if row["source"] else "bring the file (--model-file)")
        output.line(f"{row['name']:<20} {row['bytes'] / 1e6:>6.0f} MB  {row['licence']} ({row['remark']})  {state}")


def _catalog() -> Catalog:
    from appliance.images.catalog import Catalog

    return Catalog.default()


def _workshop(catalog: Catalog, name: str) -> Workshop | None:
    """Only an image with programs from source needs an engine to be built."""
    if not catalog.definition(name).build:
        return None
    from appliance.engine.docker import connect
    from appliance.engine.locks import RunLocks
    from appliance.images.library import ImageLibrary
    from appliance.images.workshop import ContainerWorkshop

    engine = connect()
    library = ImageLibrary(engine, catalog, output.note)
    return ContainerWorkshop(engine, RunLocks(), lambda pin: library.ensure([pin])[pin.config], output.note)


def _bases_first(catalog: Catalog, names: list[str] | None) -> list[str]:
    """The named images, or all, each after its base and its tools where they are among them."""
    asked = list(names or catalog.names())
    depths: dict[str, int] = {}
    for name in asked:
        chain = list(catalog.chain(name))
        tools = [tool for link in chain for tool in catalog.definition(link).tools]
        depths[name] = max(len(list(catalog.chain(tool))) for tool in [name, *tools]) + (1 if tools else 0)
    return sorted(dict.fromkeys(asked), key=lambda name: depths[name])
