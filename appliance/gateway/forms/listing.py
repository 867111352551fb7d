"""The list of models, which holds the plan's model alone; the gateway answers it itself."""

from __future__ import annotations

import json
from typing import Any

from appliance.gateway.forms.refusals import Reply, refusal
from appliance.gateway.forms.routes import Route


def models_reply(route: Route, model: str) -> Reply:
    """`route.model`: the one that was asked for by its name; another than the plan's is a 404.

    `/v1/models` is one path of three forms: its answer has the members of all of them.
    """
    gemini = {
        "name": f"models/{model}",
        "displayName": model,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
    both = {
        "id": model,
        "object": "model",
        "type": "model",
        "display_name": model,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "appliance",
    }
    if route.model is not None:
        if route.model != model:
            return refusal(route.form, "model", f"no model {route.model!r} here: this run's model is {model!r}")
        found: dict[str, Any] = gemini if route.form == "gemini" else both
    elif route.form == "gemini":
        found = {"models": [gemini]}
    else:
        found = {
            "object": "list",
            "data": [both],
            "has_more": False,
            "first_id": model,
            "last_id": model,
            "models": [gemini],
        }
    return Reply(200, (("content-type", "application/json"),), json.dumps(found).encode())
