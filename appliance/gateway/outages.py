"""Whether a provider's failure was in the agent's way, or was made good by a later answer to the same request."""

from __future__ import annotations

from appliance.gateway.exchange import WireForm
from appliance.gateway.forms.queries import Malformed
from appliance.gateway.forms.structure import structure_of


class Outages:
    """Of one trial. The same request is one with the same turns: agents ask again without streaming, or for less."""

    def __init__(self) -> None:
        self._open: dict[int, str] = {}

    @property
    def open(self) -> str | None:
        """Words of the first that no later answer made good."""
        return next(iter(self._open.values()), None)

    def failed(self, form: WireForm, body: bytes, words: str) -> None:
        self._open.setdefault(_turns(form, body), words)

    def answered(self, form: WireForm, body: bytes) -> None:
        """Well, and to its end."""
        if self._open:
            self._open.pop(_turns(form, body), None)


def _turns(form: WireForm, body: bytes) -> int:
    try:
        return hash(structure_of(form, body))
    except Malformed:
        return hash(body)
