"""The model stage: an OpenAI-compatible server, asked once a prompt."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import ValidationError

from appliance.errors import UsageRefused
from appliance.solvers.cascade.client import MAX_LINE
from appliance.solvers.cascade.messages import ClaimedUsage
from appliance.solvers.cascade.staged import Said, StageFailed

_MAX_ANSWER: Final = 4 * MAX_LINE
_MAX_RESPONSE: Final = 128 * 1024
"""Characters: whatever they are, as JSON they fit into a message."""
_SYSTEM: Final = (
    "You mend programs. Where the task asks for a change of files, answer with one unified diff that `git apply` takes,"
    " in a ```diff block, and nothing else. Answer any other question in plain words."
)


@dataclass(frozen=True)
class ModelStage:
    """`url`: what `/chat/completions` is appended to, as http://127.0.0.1:8080/v1; a key goes nowhere but there."""

    url: str
    model: str
    key: str | None = None
    seconds: float = 300.0
    name: str = "neural"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise UsageRefused(
                f"no http:// or https:// URL: {self.url}", where="--model-url", mend="http://127.0.0.1:8080/v1"
            )

    def answer(self, prompt: str) -> Said:
        """Raises StageFailed."""
        content = self._asked(prompt)
        try:
            found = json.loads(content)
            text = found["choices"][0]["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            raise StageFailed("the model's server gave no chat completion") from error
        if not isinstance(text, str):
            raise StageFailed("the model's server gave no text")
        if len(text) > _MAX_RESPONSE:
            raise StageFailed(f"the model's answer has over {_MAX_RESPONSE} characters")
        return Said(text.encode("utf-8", "replace").decode(), _usage(found.get("usage")))

    def _asked(self, prompt: str) -> bytes:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        link = kind(str(parts.hostname), parts.port, timeout=self.seconds)
        messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": prompt}]
        body = json.dumps({"model": self.model, "messages": messages, "temperature": 0}).encode()
        headers = {"content-type": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        try:
            link.request("POST", f"{parts.path.rstrip('/')}/chat/completions", body, headers)
            answer = link.getresponse()
            content = answer.read(_MAX_ANSWER + 1)
        except (OSError, http.client.HTTPException) as error:
            raise StageFailed(f"the model's server did not answer: {error or type(error).__name__}") from error
        finally:
            link.close()
        if answer.status != 200:
            raise StageFailed(f"the model's server answered {answer.status}")
        if len(content) > _MAX_ANSWER:
            raise StageFailed(f"the model's server answered with over {_MAX_ANSWER} bytes")
        return content


def _usage(said: Any) -> ClaimedUsage | None:
    """None where the server does not tell both of its counts."""
    if not isinstance(said, dict):
        return None
    try:
        return ClaimedUsage(input_tokens=said["prompt_tokens"], output_tokens=said["completion_tokens"])
    except (KeyError, ValidationError):
        return None
