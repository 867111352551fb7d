"""What is kept of a trial's exchanges: the cassette, for machines, and the transcript, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from appliance.files import disk_of
from appliance.gateway.cassette import CassetteWriter
from appliance.gateway.exchange import Exchange
from appliance.gateway.forms.transcript import spoken

_CHUNK: Final = 64 * 1024
_MOST_READ: Final = 4 * 1024 * 1024
"""Of an answer, for the transcript: what is longer is in the cassette, and in nobody's memory."""


class Recorder:
    """Both files of one trial, made with its first exchange. All calls come from one thread, which is not the loop's.

    Raises HostRefused where the disk takes no more.
    """

    def __init__(self, folder: Path, prices_at: datetime, secrets: frozenset[bytes]):
        self.folder = folder
        self._prices_at, self._secrets = prices_at, secrets
        self._cassette: CassetteWriter | None = None
        self.cassette_path = folder / "cassette.tar.gz"
        self.transcript_path = folder / "transcript.jsonl"

    def add(self, exchange: Exchange, body: bytes, answer: bytes | Path) -> None:
        """`body`: the request's, decoded. A file of an answer is removed."""
        with disk_of(self.folder, mend=f"free some space at {self.folder}"):
            if self._cassette is None:
                self._cassette = CassetteWriter(self.cassette_path, self._prices_at, self._secrets)
            self._cassette.add(exchange, answer)
            with self.transcript_path.open("a", encoding="ascii") as lines:
                lines.write(json.dumps(transcript_line(exchange, body, answer), separators=(",", ":")) + "\n")
            if isinstance(answer, Path):
                answer.unlink()

    def close(self) -> bool:
        """Whether there is anything."""
        if self._cassette is None:
            return False
        with disk_of(self.folder, mend=f"free some space at {self.folder}"):
            self._cassette.close()
        return True


def transcript_line(exchange: Exchange, body: bytes, answer: bytes | Path) -> dict[str, Any]:
    """Times are milliseconds since the trial's gateway opened; what was said stands at `spoken`."""
    said = exchange.form is not None and exchange.act == "generate" and 200 <= exchange.status < 300
    return {
        "order": exchange.order,
        "form": exchange.form,
        "act": exchange.act,
        "target": exchange.asked.target,
        "status": exchange.status,
        "startedMs": round(exchange.started_ms, 3),
        "firstByteMs": _ms(exchange.first_byte_ms),
        "firstTokenMs": _ms(exchange.first_token_ms),
        "endedMs": round(exchange.ended_ms, 3),
        "tries": [
            {"startedMs": _ms(one.started_ms), "endedMs": _ms(one.ended_ms), "status": one.status, "error": one.error}
            for one in exchange.tries
        ],
        "complete": exchange.complete,
        "usage": None if exchange.usage is None else exchange.usage.json_value(),
        "costUsd": exchange.cost_usd,
        "refused": exchange.refused,
        "detail": exchange.detail,
        "replayLevel": exchange.replay_level,
        "spoken": _spoken(exchange, body, answer) if said else None,
    }


def _spoken(exchange: Exchange, body: bytes, answer: bytes | Path) -> dict[str, Any] | None:
    if exchange.form is None:
        return None
    found = spoken(exchange.form, body, _chunks(answer))
    return found | {"truncated": found["truncated"] or exchange.body_bytes > _MOST_READ}


def _chunks(answer: bytes | Path) -> Iterator[bytes]:
    """The beginning of it."""
    if isinstance(answer, bytes):
        yield answer
        return
    left = _MOST_READ
    with answer.open("rb") as stream:
        while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
            left -= len(chunk)
            yield chunk


def _ms(moment: float | None) -> float | None:
    return None if moment is None else round(moment, 3)
