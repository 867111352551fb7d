"""The binding of NVML as questions that never raise: an answer, or the error's name as a `Lack`."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"


class Lack(str):
    """Name of the error that stands where an answer should: `NOT_SUPPORTED`, `GPU_IS_LOST`."""

    __slots__ = ()


class NvmlLibrary:
    """Loaded at the first `ready`, only where there is one: the binding alone costs the daemon some megabytes."""

    def __init__(self, renew_seconds: float):
        """`renew_seconds`: how often it may be begun anew after an error, which takes long with many boards."""
        self._renew_seconds = renew_seconds
        self._renewed_at = float("-inf")
        self._nvml: Any = None
        self._words: dict[int, str] = {}
        self._began = False
        self.stale = False
        """Something failed that only beginning anew can mend."""

    def ready(self) -> Lack | None:
        """Why it cannot be asked; None: it can."""
        if self._nvml is None:
            try:
                ctypes.CDLL(LIBRARY)
                import pynvml  # type: ignore[import-untyped]  # it has no types
            except OSError:
                return Lack("LIBRARY_NOT_FOUND")
            except ImportError:
                return Lack("no distribution nvidia-ml-py")
            self._nvml = pynvml
            self._words = {
                value: name.removeprefix("NVML_ERROR_")
                for name, value in vars(pynvml).items()
                if name.startswith("NVML_ERROR_") and isinstance(value, int)
            } | {0: "SUCCESS"}
        now = time.monotonic()
        if self.stale and now - self._renewed_at >= self._renew_seconds:
            self.stale, self._renewed_at = False, now
            self.end()
        if not self._began:
            lack = self.ask("nvmlInit")
            if isinstance(lack, Lack):
                return lack
            self._began = True
        return None

    def end(self) -> None:
        if self._began:
            self.ask("nvmlShutdown")
            self._began = False

    def ask(self, question: str, *arguments: Any) -> Any:
        """The answer, or a `Lack`."""
        try:
            return getattr(self._nvml, question)(*arguments)
        except self._nvml.NVMLError as error:
            return self._lack(error.value)
        except ValueError:
            # A name that is no UTF-8, which the binding decodes.
            return Lack("NOT_TEXT")

    def text(self, question: str, *arguments: Any) -> str:
        """Or a `Lack`."""
        found = self.ask(question, *arguments)
        if isinstance(found, Lack):
            return found
        return found.decode(errors="replace") if isinstance(found, bytes) else str(found)

    def power_mw(self, handle: Any, *, of_module: bool) -> Any:
        """Of this moment, not averaged (field POWER_INSTANT); or a `Lack`."""
        nvml = self._nvml
        scope = nvml.NVML_POWER_SCOPE_MODULE if of_module else nvml.NVML_POWER_SCOPE_GPU
        values = self.ask("nvmlDeviceGetFieldValues", handle, [(nvml.NVML_FI_DEV_POWER_INSTANT, scope)])
        if isinstance(values, Lack):
            return values
        found = values[0]
        return found.value.uiVal if found.nvmlReturn == 0 else self._lack(found.nvmlReturn)

    def _lack(self, number: int) -> Lack:
        return Lack(self._words.get(number, f"NVML_{number}"))
