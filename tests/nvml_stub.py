"""The C stub of NVML: compiled, and driven by a file that is rewritten while somebody asks it."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "stubs" / "nvml.c"


def compile_stub(folder: Path) -> Path:
    """The folder to put on LD_LIBRARY_PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libnvidia-ml.so.1"
    if not library.exists():
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(_SOURCE)], check=True
        )
    return folder


class StubGpus:
    """Boards as the stub shows them: `set("0.energy", 1000)`, `fail("0.energy", 15)`, `forget("0.energy")`."""

    def __init__(self, file: Path, count: int = 1):
        self.file = file
        self._values: dict[str, str] = {"count": str(count), "driver": "580.65.06", "nvml": "13.580.65.06"}
        for number in range(count):
            self._values |= {
                f"{number}.uuid": uuid(number),
                f"{number}.name": "NVIDIA H100 80GB HBM3",
                f"{number}.arch": "9",
                f"{number}.energy": "1000000",
                f"{number}.power": "120000",
                f"{number}.instant": "121000",
                f"{number}.limit": "700000",
                f"{number}.board": str(number),
                f"{number}.several": "0",
                f"{number}.compute": "",
                f"{number}.graphics": "",
                f"{number}.mps": "",
                f"{number}.mig": "0",
            }
        self._write()

    def environment(self, library: Path) -> dict[str, str]:
        return {"FAKE_NVML": str(self.file), "LD_LIBRARY_PATH": str(library)}

    def set(self, key: str, value: object) -> None:
        self._values[key] = str(value)
        self._write()

    def fail(self, key: str, error: int) -> None:
        self.set(key, f"!{error}")

    def forget(self, key: str) -> None:
        self._values.pop(key, None)
        self._write()

    def _write(self) -> None:
        """In one step: who reads meanwhile sees the whole of the old or of the new."""
        new = self.file.with_name(self.file.name + ".new")
        new.write_text("".join(f"{key} {value}\n" for key, value in self._values.items()))
        new.replace(self.file)


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-1234-ABCD-0000-000000000000"
