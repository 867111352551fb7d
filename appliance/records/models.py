"""Which model a plan asks, as a record states it."""

from __future__ import annotations

from appliance.records.plan import TrialPlan
from appliance.records.record import ModelEngine, ModelStamp


def model_stamp(plan: TrialPlan) -> ModelStamp | None:
    """Follows from the plan alone, for whoever runs it and whoever verifies. A server's build is its image's: the
    content of the engine and of all that it is linked with."""
    if plan.model is None:
        return None
    upstream = plan.upstream
    server = upstream.server if upstream else None
    return ModelStamp(
        name=plan.model,
        provider=upstream.provider if upstream else None,
        digest=server.weights if server else None,
        sampling=dict(server.sampling) if server else None,
        engine=ModelEngine(build=server.image.config, slots=server.slots, threads=server.threads) if server else None,
    )
