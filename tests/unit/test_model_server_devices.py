"""Whether the engine has a GPU says the engine: the hardware is what is missing here, so its words stand in for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.digests import sha256_of_file
from appliance.errors import HostRefused
from appliance.ports import Captured, ContainerSpec, ExecOutcome, ExecSpec
from appliance.records.plan import PlannedServer
from appliance.trials.model_server import ModelServer, devices
from tests import record_builder as build

NONE = "Available devices:\n  (none)\n"
ONE = "load_backend: loaded\nAvailable devices:\n  CUDA0: NVIDIA H100 80GB HBM3 (81004 MiB, 80499 MiB free)\n"


@pytest.mark.parametrize(("listed", "names"), [(NONE, ()), (ONE, ("CUDA0",)), ("", ()), ("illegal: x", ())])
def test_devices_are_those_that_the_engine_lists(listed: str, names: tuple[str, ...]) -> None:
    assert devices(listed) == names


class Listing:
    """An engine whose one container prints what it was given."""

    def __init__(self, said: str):
        self.said = said
        self.removed: list[str] = []
        self.asked: list[tuple[str, ...]] = []

    def create(self, spec: ContainerSpec) -> str:
        assert spec.gpus
        return "one"

    def start(self, container: str) -> None: ...

    def execute(self, container: str, spec: ExecSpec) -> ExecOutcome:
        self.asked.append(spec.argv)
        out = Captured(len(self.said), "", self.said.encode(), b"", truncated=False)
        return ExecOutcome(0, False, out, Captured(0, "", b"", b"", truncated=False), 0.1)

    def remove(self, container: str) -> None:
        self.removed.append(container)


def test_a_run_that_asked_for_a_gpu_is_refused_where_its_engine_has_none(tmp_path: Path) -> None:
    """`--gpus` is recorded, so it has to be so: refused with the mend, before a model is loaded; nothing stays."""
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF")
    weights.chmod(0o644)
    planned = PlannedServer(
        weights=sha256_of_file(weights),
        image=build.pin("llama"),
        slots=1,
        threads=1,
        context=512,
        gpus=True,
        sampling={},
    )
    engine = Listing(NONE)
    server = ModelServer(
        engine,  # type: ignore[arg-type]
        planned,
        argv=("never",),
        image="i",
        weights=weights,
        folder=tmp_path / "server",
        labels={},
        cgroup=None,
        log=tmp_path / "log",
    )
    with pytest.raises(HostRefused, match="sees no GPU"), server:
        pass
    assert engine.asked == [("/usr/local/bin/llama-server", "--list-devices")]
    assert engine.removed == ["one"]
    assert not (tmp_path / "server").exists()
