"""task.toml and suite.toml as shapes, for their published schemas alone: the reader judges by itself, with places.

A test holds keys and defaults equal to the reader's.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from appliance.tasks.model import Isolation, Network, OracleFormat

_TEXT = Field(min_length=1)


class _Toml(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", use_attribute_docstrings=True)


class LimitsToml(_Toml):
    """What the solver gets; `test_seconds` is the oracle's."""

    wall_seconds: float = Field(default=600.0, ge=0.1)
    cpus: float = Field(default=1.0, ge=0.01)
    memory_mib: int = Field(default=2048, ge=16)
    pids: int = Field(default=256, ge=8)
    disk_mib: int = Field(default=1024, ge=8)
    test_seconds: float = Field(default=120.0, ge=0.1)


class OracleToml(_Toml):
    format: OracleFormat | None = None
    """junit where ids are listed, exit_code otherwise."""
    path: str | None = Field(default=None, pattern=r"^/grade/.+")
    """junit only: where test_cmd writes its report."""
    isolation: Isolation = "none"
    fail_to_pass: tuple[Annotated[str, _TEXT], ...] = ()
    """Ids that must fail in the baseline and pass at the end."""
    pass_to_pass: tuple[Annotated[str, _TEXT], ...] = ()
    """Ids that must pass in both."""


class TaskToml(_Toml):
    name: str = _TEXT
    prompt: str
    test_cmd: str | tuple[str, ...]
    """A list, or a string run by `sh -c`."""
    test_files: tuple[str, ...]
    """Looked up in tests/, which the solver never sees, then in before/."""
    image: str = "base"
    """A name in images/, an image's digest, or `HOST/REPOSITORY@sha256:...` in a registry."""
    network: Network = "none"
    protected: tuple[str, ...] = ()
    """Globs besides test_files that are never taken from the solver."""
    allow: tuple[str, ...] = ()
    """Files that runners load by themselves, and that this task's fix may touch."""
    limits: LimitsToml = LimitsToml()
    oracle: OracleToml = OracleToml()


class SuiteToml(_Toml):
    """The whole file is optional."""

    name: str | None = None
    """The folder's name, where it is not said."""
    version: str = Field(default="1", min_length=1)
    license: str | None = None
    timeout_resolves: bool = True
    """False: a trial that ran into its limit is unresolved whatever the tests say."""
    weight: float = Field(default=1.0, gt=0)
