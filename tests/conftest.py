"""Skips are loud, and `--require` turns the ones that a machine must not have into failures."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from functools import cache

import pytest
from hypothesis import HealthCheck, settings

from tests.judges_packages import why_no_node
from tests.services_build import why_not

# Machines are shared and noisy: how long an example takes says nothing about the code.
settings.register_profile(
    "shared", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=bool(os.environ.get("CI"))
)
settings.load_profile("shared")

# A suite that a shell starts in its background ignores Ctrl-C, and so would every program that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

_NEEDS = ("docker", "podman", "nix", "services", "node", "tpm", "agents", "root")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        action="append",
        default=[],
        choices=_NEEDS,
        help="fail instead of skipping where this is missing; may be given more than once",
    )


@cache
def _why_missing(need: str) -> str | None:  # noqa: PLR0911  one a need
    match need:
        case "docker" | "agents":
            if shutil.which("docker") is None:
                return "no docker client"
            asked = subprocess.run(["docker", "version", "-f", "{{.Server.Version}}"], capture_output=True, check=False)
            return None if asked.returncode == 0 else "no Docker engine answers"
        case "podman":
            return None if shutil.which("podman") and os.getuid() == 0 else "no podman, or not root"
        case "nix":
            return None if shutil.which("nix") or shutil.which("nix-build") else "no nix"
        case "services":
            return why_not()
        case "node":
            return why_no_node()
        case "tpm":
            programs = ("swtpm", "swtpm_setup", "tpm2_checkquote", "tpm2_createprimary")
            lacking = [one for one in programs if shutil.which(one) is None]
            return f"no {', no '.join(lacking)} (Debian's swtpm, swtpm-tools, tpm2-tools)" if lacking else None
        case _:
            return None if os.getuid() == 0 else "not root"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs the services comes last: on a new machine they are built meanwhile, which takes minutes. The agents'
    tests run only where they are asked for by their marker: their images are large.
    """
    if "agents" not in config.getoption("-m"):
        left_out = [item for item in items if item.get_closest_marker("agents")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: item.get_closest_marker("services") is not None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = item.config.getoption("--require")
    for need in _NEEDS:
        if item.get_closest_marker(need) is None:
            continue
        why = _why_missing(need)
        if why and need in required:
            pytest.fail(f"--require={need}: {why}", pytrace=False)
        elif why:
            pytest.skip(why)
