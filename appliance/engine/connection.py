"""How the engine is reached: its address, a client, and what its failures are called."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
import docker.errors
import docker.tls
import requests.exceptions
import urllib3.exceptions

from appliance import bundle, mends
from appliance.errors import HostRefused
from appliance.ports import EngineFailed
from appliance.records.record import EngineStamp

DEFAULT_ADDRESS = "unix:///var/run/docker.sock"
OLDEST_API = (1, 41)
"""Docker 20.10: private cgroup namespaces; podman 4.3 speaks it too."""
NEWEST_API = (1, 47)
"""The newest that our requests were written against; engines keep the older ones."""
CALL_SECONDS = 300
"""Longest silence in one call; a loaded engine once took a minute to create a container."""

_FOREIGN = (docker.errors.DockerException, requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError)


@dataclass(frozen=True)
class Address:
    """`DOCKER_HOST` taken apart; `host` and `port` are for tcp, `path` for unix."""

    text: str
    path: str | None
    host: str
    port: int
    certificates: Path | None
    """Folder of ca.pem, cert.pem, key.pem; None: no TLS."""

    @property
    def remote(self) -> bool:
        return self.path is None

    def dial(self) -> socket.socket:
        """A fresh connection, for exec streams: docker-py loses bytes that arrive with the response's head."""
        if self.path is not None:
            unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                unix.connect(self.path)
            except BaseException:
                unix.close()
                raise
            return unix
        plain = socket.create_connection((self.host, self.port), timeout=CALL_SECONDS)
        if self.certificates is None:
            return plain
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        return context.wrap_socket(plain, server_hostname=self.host)


def engine_address(text: str | None = None) -> Address:
    """`text`, else `DOCKER_HOST`, else the system's socket. Raises HostRefused on a scheme that we cannot speak."""
    text = text or os.environ.get("DOCKER_HOST") or DEFAULT_ADDRESS
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        mend = "as unix:///var/run/docker.sock or tcp://HOST:2376"
        raise HostRefused(f"DOCKER_HOST is no address: {error}", where=text, mend=mend, reason="address") from error
    if parts.scheme in {"unix", "http+unix"} and parts.netloc + parts.path:
        return Address(text, parts.netloc + parts.path, "", 0, None)
    if parts.scheme in {"tcp", "http", "https"} and parts.hostname:
        secure = parts.scheme == "https" or bool(os.environ.get("DOCKER_TLS_VERIFY"))
        port = port or (2376 if secure else 2375)
        return Address(text, None, parts.hostname, port, _certificates() if secure else None)
    raise HostRefused(
        f"DOCKER_HOST has the scheme {parts.scheme or 'none'!r}, which is neither unix nor tcp",
        where=text,
        mend="forward the socket with `ssh -L /tmp/engine.sock:/var/run/docker.sock HOST` and set "
        "DOCKER_HOST=unix:///tmp/engine.sock",
        reason="address",
    )


def open_client(address: Address) -> tuple[docker.APIClient, str, Mapping[str, Any]]:
    """A client, the API version that both sides speak, and what the engine says of its version.

    Raises HostRefused, with the mend, where nothing answers.
    """
    tls = None
    base = address.text if address.path is None else f"unix://{address.path}"
    try:
        if address.certificates is not None:
            keys = [str(address.certificates / name) for name in ("cert.pem", "key.pem", "ca.pem")]
            tls = docker.tls.TLSConfig(client_cert=(keys[0], keys[1]), ca_cert=keys[2], verify=True)
        probe = docker.APIClient(base_url=base, version="1.41", tls=tls or False, timeout=10)
        try:
            said = probe.version(api_version=False)
        finally:
            probe.close()
    except _FOREIGN as error:
        raise unreachable(address, error) from error
    api = agreed_version(str(said["ApiVersion"]))
    return docker.APIClient(base_url=base, version=api, tls=tls or False, timeout=CALL_SECONDS), api, said


def is_podman(version: Mapping[str, Any]) -> bool:
    return any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def engine_stamp(
    version: Mapping[str, Any], about: Mapping[str, Any], address: Address, runtime: str | None
) -> EngineStamp:
    security = [str(word) for word in about.get("SecurityOptions") or ()]
    return EngineStamp(
        name="podman" if is_podman(version) else "docker",
        version=str(version.get("Version", "unknown")),
        storage_driver=str(about.get("Driver", "unknown")),
        cgroup_driver=str(about.get("CgroupDriver", "unknown")),
        runtime=runtime or str(about.get("DefaultRuntime", "unknown")),
        rootless=any("rootless" in word for word in security),
        remote=address.remote,
    )


def agreed_version(spoken: str) -> str:
    """The API version to use with an engine that speaks up to `spoken`. Raises HostRefused if it is too old."""
    newest = tuple(int(part) for part in spoken.split(".")[:2])
    if newest < OLDEST_API:
        raise HostRefused(
            f"the engine speaks API {spoken}; 1.41 (Docker 20.10) is the oldest that holds our limits",
            mend="apt-get install docker.io",
            reason="too_old",
        )
    return ".".join(str(part) for part in min(newest, NEWEST_API))


def unreachable(address: Address, error: Exception) -> HostRefused:
    """Why nothing answered, with the one command that mends it."""
    if address.path is None:
        return HostRefused(
            "the remote engine does not answer", where=address.text, mend="unset DOCKER_HOST", reason="remote"
        )
    path = Path(address.path)
    if _is_absent(path):
        return HostRefused("no container engine", where=address.text, mend=_install_mend(), reason="absent")
    if not os.access(path, os.R_OK | os.W_OK):
        return HostRefused(
            "no permission on the engine's socket",
            where=address.text,
            mend=f"sudo usermod -aG docker {mends.user()} && newgrp docker",
            reason="permission",
        )
    return HostRefused(
        f"the engine's socket is there, but nothing answers on it: {shortened(error)}",
        where=address.text,
        mend=_start_mend(),
        reason="silent",
    )


def _is_absent(path: Path) -> bool:
    """As far as this user is let see: what lies in a folder that is closed to him is not called absent."""
    try:
        path.stat()
    except PermissionError:
        return False
    except OSError:
        return True
    return False


def _certificates() -> Path:
    named = os.environ.get("DOCKER_CERT_PATH")
    return Path(named) if named else bundle.home() / ".docker"


def _install_mend() -> str:
    return mends.sudo("apt-get install docker.io")


def _start_mend() -> str:
    systemd = Path("/run/systemd/system").is_dir()
    return mends.sudo("systemctl restart docker" if systemd else "service docker restart")


def shortened(error: BaseException) -> str:
    """One line of a foreign error, the engine's own words where it has some."""
    words = getattr(error, "explanation", None) or str(error) or type(error).__name__
    if isinstance(words, bytes):
        words = words.decode(errors="backslashreplace")
    line = " ".join(str(words).split())
    return line if len(line) <= 400 else line[:397] + "..."


@contextmanager
def translated(act: str) -> Iterator[None]:
    """Foreign errors of the engine become EngineFailed; `act` says what we asked, as "create a container"."""
    try:
        yield
    except docker.errors.APIError as error:
        if error.status_code in {500, 507} and "no space left" in str(error).lower():
            raise HostRefused(
                f"the engine could not {act}: its disk is full", mend="appliance gc", reason="disk_full"
            ) from error
        raise EngineFailed(f"the engine could not {act}: {shortened(error)}") from error
    except _FOREIGN as error:
        raise EngineFailed(f"the engine could not {act}: {shortened(error)}") from error


def is_gone(error: docker.errors.APIError) -> bool:
    """404, or 409 for a removal that is under way already."""
    already = error.status_code == 409 and "already in progress" in str(error)
    return error.status_code == 404 or already
