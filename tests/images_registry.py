"""A registry on loopback: Debian's `docker-registry`, taken out of its package, so that no service is installed."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def docker(*words: str, stdin: bytes | None = None) -> str:
    return subprocess.run(["docker", *words], input=stdin, capture_output=True, check=True).stdout.decode().strip()


def program(folder: Path) -> str:
    """Skips loudly where neither this machine nor its mirror has one."""
    installed = shutil.which("docker-registry")
    if installed:
        return installed
    if shutil.which("apt-get") is None:
        pytest.skip("no docker-registry, and no apt to get it with")
    got = subprocess.run(["apt-get", "download", "-q", "docker-registry"], cwd=folder, capture_output=True, check=False)
    packages = list(folder.glob("docker-registry_*.deb"))
    if got.returncode or not packages:
        pytest.skip("no docker-registry, and this machine's mirror does not give its package")
    subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(folder)], check=True)
    return str(folder / "usr/bin/docker-registry")


class Registry:
    """Started and stopped at will; what was pushed stays."""

    def __init__(self, folder: Path, executable: str, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._executable = executable
        self._settings = folder / "registry.yml"
        self._log = folder / "registry.log"
        self._running: subprocess.Popen[bytes] | None = None
        self._settings.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/storage}}}}\n"
            f"http: {{addr: '{self.address}'}}\nlog: {{accesslog: {{disabled: false}}}}\n"
        )

    def start(self) -> None:
        with self._log.open("ab") as log:
            words = [self._executable, "serve", str(self._settings)]
            self._running = subprocess.Popen(words, stdout=log, stderr=log)
        host, _, port = self.address.partition(":")
        for _ in range(600):
            with socket.socket() as asking:
                if asking.connect_ex((host, int(port))) == 0:
                    return
            # Nothing tells when it listens.
            time.sleep(0.05)
        pytest.fail(f"the registry does not listen: {self._log.read_text()[-500:]}")

    def stop(self) -> None:
        if self._running:
            self._running.kill()
            self._running.wait()
            self._running = None

    def push(self, image: str, repository: str) -> str:
        """`HOST/REPOSITORY@sha256:...` of an image of the engine's; `latest` means it from now on, here and there."""
        tag = f"{self.address}/{repository}:latest"
        docker("tag", image, tag)
        said = docker("push", tag)
        return f"{self.address}/{repository}@{said.rpartition('digest: ')[2].split()[0]}"

    def asked(self) -> int:
        """How many requests it has had."""
        return self._log.read_text().count('"GET ') + self._log.read_text().count('"HEAD ')


@contextmanager
def registry_on_loopback() -> Iterator[Registry]:
    """Docker takes one without TLS on 127.0.0.0/8, and nowhere else."""
    with tempfile.TemporaryDirectory(prefix="bench-registry.") as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        registry = Registry(Path(folder), program(Path(folder)), port)
        registry.start()
        try:
            yield registry
        finally:
            registry.stop()
