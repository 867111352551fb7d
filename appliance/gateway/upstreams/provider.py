"""A provider over https, or any server that speaks one of the forms: the key is held here and nowhere else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final, Literal
from urllib.parse import urlsplit

from appliance.errors import HostRefused, UsageRefused
from appliance.gateway.exchange import Asked, WireForm
from appliance.gateway.forms.routes import Route
from appliance.gateway.upstreams import http
from appliance.gateway.upstreams.upstream import Sent

ProviderName = Literal["anthropic", "openai", "google", "compatible"]

_BASES: Final[dict[str, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
    "google": "https://generativelanguage.googleapis.com",
}
_VARIABLES: Final[dict[str, str]] = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "google": "GEMINI_API_KEY",
}
_VERSION: Final[dict[WireForm, str]] = {
    "anthropic": "/v1",
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "gemini": "/v1beta",
}
_ANTHROPIC_VERSION: Final = "2023-06-01"


def default_key_variable(provider: ProviderName) -> str | None:
    """The one that the provider's own clients read; a compatible server has none."""
    return _VARIABLES.get(provider)


def provider_upstream(
    provider: ProviderName,
    *,
    url: str | None = None,
    key_variable: str | None = None,
    environment: Mapping[str, str] = os.environ,
    silence_seconds: float = http.SILENCE_SECONDS,
) -> ProviderUpstream:
    """The key is read now, from the variable of this name or the provider's own. `url`: as its clients' base URL.

    Raises HostRefused where the variable is empty, UsageRefused for a URL that is none.
    """
    variable = key_variable or default_key_variable(provider)
    key = None if variable is None else environment.get(variable, "").strip()
    if variable is not None and not key:
        raise HostRefused(
            f"no key of {provider}", where=f"variable {variable}", mend=f"export {variable}=...", reason="no_key"
        )
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise HostRefused("holds what no key has: blanks or characters beyond ASCII", where=f"variable {variable}")
    return ProviderUpstream(checked_base(url or _BASES.get(provider)), key, silence_seconds)


def checked_base(url: str | None) -> str:
    """Raises UsageRefused for what is no base URL over http or https, or holds a key."""
    if url is None:
        raise UsageRefused("a compatible server has no place of its own", where="--model-url", mend="give its URL")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  it raises
    except ValueError as error:
        mend = "as https://models.example/v1"
        raise UsageRefused(f"no URL: {error}", where="--model-url", mend=mend) from error
    strange = not (url.isascii() and url.isprintable()) or " " in url
    if strange or parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise UsageRefused(
            f"no base URL: {url!r}", where="--model-url", mend="as https://models.example/v1, without a query"
        )
    if parts.username or parts.password:
        raise UsageRefused("a URL holds no key here", where="--model-url", mend="name a variable by --model-key-env")
    return url.rstrip("/")


class ProviderUpstream:
    """Asked over kept-alive connections, as many at once as there are exchanges."""

    remote = True

    def __init__(self, base: str, key: str | None, silence_seconds: float):
        self._base = base
        self._key = key
        self._silence_seconds = silence_seconds
        self._client = http.client()

    def __repr__(self) -> str:
        return f"ProviderUpstream({self._base!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self._key,) if self._key else ()

    def slot(self) -> AbstractAsyncContextManager[object]:
        return nullcontext()

    @asynccontextmanager
    async def sending(self, asked: Asked, route: Route, *, stream: bool = False) -> AsyncIterator[Sent]:
        async with http.sent_to(
            self._client,
            asked,
            placed(self._base, route.form, asked.target),
            self._added(route.form, asked),
            silence_seconds=self._silence_seconds,
            head_seconds=min(self._silence_seconds, http.HEAD_SECONDS) if stream else None,
        ) as sent:
            yield sent

    async def close(self) -> None:
        await self._client.aclose()

    def _added(self, form: WireForm, asked: Asked) -> list[tuple[str, str]]:
        added: list[tuple[str, str]] = []
        if form == "anthropic" and "anthropic-version" not in dict(asked.headers):
            added.append(("anthropic-version", _ANTHROPIC_VERSION))
        if self._key is not None:
            match form:
                case "anthropic":
                    added.append(("x-api-key", self._key))
                case "gemini":
                    added.append(("x-goog-api-key", self._key))
                case _:
                    added.append(("authorization", f"Bearer {self._key}"))
        return added


def placed(base: str, form: WireForm, target: str) -> str:
    """The URL of an agent's path and query below `base`, whether either, both or neither says the version.

    Where `base` has another path (`https://models.example/api/paas/v4`), OpenAI's forms go right below it, as their
    clients do; the others have their version between.
    """
    path, mark, query = target.partition("?")
    for version in ("/v1beta", "/v1alpha", "/v1"):
        if path.startswith(f"{version}/"):
            said, tail = version, path.removeprefix(version)
            break
    else:
        said, tail = _VERSION[form], path
    place = urlsplit(base).path
    if place.rsplit("/", 1)[-1] in {"v1", "v1beta", "v1alpha"} or (
        place and form in {"openai-chat", "openai-responses"}
    ):
        said = ""
    return f"{base}{said}{tail}{mark}{query}"
