"""Images that only a registry has: pulled by manifest digest, before the first trial, and never by tag."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import bundle
from appliance.engine.docker import connect
from appliance.errors import HostRefused
from appliance.images import archives
from appliance.images.catalog import Catalog
from appliance.images.library import ImageLibrary
from appliance.pins import Pin
from appliance.ports import Engine
from appliance.records.plan import PlannedImages, PlannedTask, TrialPlan
from appliance.solvers.finding import find_solver
from appliance.tasks.model import Suite
from appliance.trials.adapters import this_machine
from appliance.trials.planning import plan_trials
from appliance.trials.session import RunOptions, run_plans
from appliance.trials.stamps import Subject
from tests.grading_bench import image as image_of_ours
from tests.images_registry import Registry, docker, registry_on_loopback
from tests.trials_bench import Watched
from tests.trials_suites import options, small_suite

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with registry_on_loopback() as registry:
        yield registry


class Bench:
    """Images of this test's own, in the engine and in the registry; removed from the engine in the end."""

    def __init__(self, registry: Registry, root: Path) -> None:
        self.registry = registry
        self.root = root
        self.steps: list[str] = []
        self.engine = connect()
        self.made: list[str] = []
        registry.stop()
        registry.start()

    def library(self) -> ImageLibrary:
        """As another command has it: nothing remembered but what the cache holds."""
        return ImageLibrary(self.engine, Catalog((self.root / "images",)), self.steps.append)

    def pushed(self, content: bytes = b"", *, keep: bool = False) -> tuple[str, str]:
        """`(reference, image id)`; the engine has it no more unless `keep`."""
        image = docker("import", "-", stdin=_tar("content", content or os.urandom(16)))
        self.made.append(image)
        reference = self.registry.push(image, "users/own")
        if not keep:
            docker("image", "rm", "-f", image)
        return reference, image

    def forget(self, *, cache: bool = True) -> None:
        for image in self.made:
            subprocess.run(["docker", "image", "rm", "-f", image], capture_output=True, check=False)
        if cache:
            shutil.rmtree(bundle.cache_home(), ignore_errors=True)


def _tar(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        item = tarfile.TarInfo(name)
        item.size = len(content)
        tar.addfile(item, io.BytesIO(content))
    return out.getvalue()


@pytest.fixture
def bench(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bench = Bench(registry, tmp_path)
    yield bench
    bench.forget(cache=False)


def planned(suite: Suite, reference: str, pin: Pin) -> tuple[TrialPlan, tuple[PlannedTask, ...]]:
    """A plan of `suite` on an image that only `reference` gives."""
    images = PlannedImages(task=pin, solver=None, composed=pin, rebuildable=False)
    plan = plan_trials(suite, find_solver("noop"), {task.spec.image: images for task in suite.tasks}, options())
    tasks = tuple(
        task.model_copy(update={"spec": task.spec.model_copy(update={"image": reference})}) for task in plan.tasks
    )
    return plan.model_copy(update={"tasks": tasks}), tasks


def test_an_image_of_a_registry_is_pinned_by_the_manifest_that_it_has_there(bench: Bench) -> None:
    """Configuration and layers are the engine's, the manifest the reference's; no lock of ours rebuilds it (I11)."""
    reference, image = bench.pushed()
    pin, rebuildable = bench.library().pin(reference)
    assert (pin.config, rebuildable) == (image, False)
    assert pin.manifest == reference.partition("@")[2]
    assert docker("image", "inspect", "-f", "{{json .RootFS.Layers}}", image) == f'["{pin.diff_ids[0]}"]'
    assert bench.steps == [f"pulling {reference}"]


def test_what_the_engine_or_the_cache_has_is_not_pulled(bench: Bench) -> None:
    """One that was pulled before is known, here and in the next command, with the registry gone (I6, H17)."""
    reference, image = bench.pushed()
    docker("pull", reference)
    bench.registry.stop()
    pin, _ = bench.library().pin(reference)
    assert bench.library().ensure([pin]) == {image: image}
    bench.forget(cache=False)
    assert bench.library().pin(reference)[0] == pin
    assert bench.library().ensure([pin]) == {image: image}
    assert bench.steps == [f"loading {image[:19]}"]


def test_a_stranger_with_a_plan_alone_pulls_by_the_digest_in_it(bench: Bench, tmp_path: Path) -> None:
    """Neither archive nor lock nor memory: the plan says where, the pin says what (I6, I11, H11)."""
    reference, image = bench.pushed()
    pin, _ = bench.library().pin(reference)
    _, tasks = planned(small_suite(tmp_path / "suite"), reference, pin)
    bench.forget()
    bench.steps.clear()
    assert bench.library().ensure([pin], tasks) == {image: image}
    assert bench.steps == [f"pulling {reference}"]


def test_moving_a_tag_between_two_runs_does_not_change_the_image(bench: Bench, tmp_path: Path) -> None:
    """Also where the engine holds what the tag has come to mean: planned again, resumed, reproduced (H11)."""
    reference, image = bench.pushed()
    pin, _ = bench.library().pin(reference)
    _, tasks = planned(small_suite(tmp_path / "suite"), reference, pin)
    moved, other = bench.pushed(keep=True)
    assert moved != reference
    assert docker("image", "inspect", "-f", "{{.Id}}", f"{bench.registry.address}/users/own:latest") == other
    assert bench.library().pin(reference)[0] == pin
    assert bench.library().ensure([pin], tasks) == {image: image}
    docker("image", "rm", "-f", image)
    shutil.rmtree(bundle.cache_home())
    assert bench.library().ensure([pin], tasks) == {image: image}
    assert bench.library().pin(reference)[0] == pin


def test_a_pulled_image_that_is_not_the_pinned_one_is_refused(bench: Bench, tmp_path: Path) -> None:
    """A record may say anything; configuration and layers decide (I5, status 4)."""
    reference, _ = bench.pushed()
    pin, _ = bench.library().pin(reference)
    bench.forget()
    forged = pin.model_copy(update={"config": f"sha256:{1:064x}"})
    _, tasks = planned(small_suite(tmp_path / "suite"), reference, forged)
    with pytest.raises(HostRefused, match="is another image than the one that was pinned by it"):
        bench.library().ensure([forged], tasks)
    layers = pin.model_copy(update={"diff_ids": (f"sha256:{1:064x}",)})
    with pytest.raises(HostRefused, match="has other layers than its pin"):
        bench.library().ensure([layers], tasks)


def test_a_damaged_archive_of_a_pulled_image_is_pulled_again(bench: Bench) -> None:
    """The engine refuses the damaged layer; the registry still has the whole one (I6)."""
    library = bench.library()
    reference, image = bench.pushed(b"content of one layer")
    pin, _ = library.pin(reference)
    docker("image", "rm", "-f", image)
    archive = archives.archive_path(pin.config)
    archive.write_bytes(archive.read_bytes().replace(b"content of one layer", b"CONTENT of one layer"))
    assert library.ensure([pin]) == {image: image}
    assert bench.steps[-1] == f"pulling {reference}"


def test_without_the_registry_a_plan_is_refused_before_its_first_trial(bench: Bench, tmp_path: Path) -> None:
    """Every missing digest in one line, status 4, no folder begun; the same where the pin was never known (H17)."""
    reference, _ = bench.pushed()
    suite = small_suite(tmp_path / "suite")
    pin, _ = bench.library().pin(reference)
    plan, _ = planned(suite, reference, pin)
    bench.forget()
    bench.registry.stop()
    with pytest.raises(HostRefused, match=rf"1 images cannot be had: {pin.config}.*could not pull {reference}") as said:
        run_plans(
            (plan,),
            suite,
            solvers={"noop": find_solver("noop")},
            adapters=this_machine((plan,), bench.steps.append),
            out=tmp_path / "run",
            options=RunOptions(subjects={"noop": Subject(None, None, "unknown")}, keep_suite=False),
            watcher=Watched(),
        )
    assert (said.value.status, "\n" in str(said.value)) == (4, False)
    assert not (tmp_path / "run").exists()
    with pytest.raises(HostRefused, match=f"could not pull {reference}"):
        bench.library().pin(reference)


def test_nothing_is_asked_of_a_registry_while_trials_run(bench: Bench, tmp_path: Path) -> None:
    """What is here is not asked for again, and an Engine of a trial has no pull to call (H17)."""
    base, _ = image_of_ours("base")
    suite = small_suite(tmp_path / "suite")
    reference = f"{bench.registry.address}/users/base@{base.manifest}"
    plan, _ = planned(suite, reference, base)
    before = bench.registry.asked()
    run_plans(
        (plan,),
        suite,
        solvers={"noop": find_solver("noop")},
        adapters=this_machine((plan,), bench.steps.append),
        out=tmp_path / "run",
        options=RunOptions(subjects={"noop": Subject(None, None, "unknown")}, keep_suite=False),
        watcher=Watched(),
    )
    assert (tmp_path / "run/records/noop.json").exists()
    assert bench.registry.asked() == before
    assert not hasattr(Engine, "pull")


def test_an_engine_is_never_asked_for_a_tag(bench: Bench) -> None:
    """A name without a digest is a bug of ours, before any request (H11)."""
    with pytest.raises(ValueError, match="names no digest"):
        bench.engine.pull(f"{bench.registry.address}/users/own:latest")
