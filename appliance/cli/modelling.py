"""What `run` is asked of its model: who answers, with which weights, and how much may be asked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.errors import HostRefused, UsageRefused
from appliance.records.money import total_usd
from appliance.records.plan import PlannedBudget, PlannedServer, PlannedUpstream, TrialPlan
from appliance.records.words import Provider
from appliance.trials.model_server import lacking_flags
from appliance.trials.models import ModelSources
from appliance.trials.upstreams import provider_for

if TYPE_CHECKING:
    from appliance.images.weights import Weights
    from appliance.ports import Images
    from appliance.solvers.definition import SolverDefinition

CONTEXT_TOKENS: Final = 4096
_FORWARDER_IMAGE: Final = "base"
_SERVER_IMAGE: Final = "llama"
_MOST_THREADS: Final = 8
_MOST_CONTEXT: Final = 10_000_000
_MOST_ASKED: Final = 10**12
"""Tokens or exchanges: beyond it a bound bounds nothing, and further on no JSON number is exact."""
_SAMPLING: Final = {"temperature": 0.0, "seed": 42.0}
_CPUINFO: Final = Path("/proc/cpuinfo")
_USD: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,18})?")


@dataclass(frozen=True)
class ModelAsk:
    """The command line's words about the model, but for its name."""

    provider: Provider | None = None
    url: str | None = None
    key_variable: str | None = None
    file: Path | None = None
    gpus: bool = False
    context: int | None = None
    budget: PlannedBudget = field(default_factory=PlannedBudget)
    run_budget: PlannedBudget = field(default_factory=PlannedBudget)

    @property
    def planned(self) -> bool:
        """A word was given that a plan holds; where weights lie and a key is held is no such word."""
        return self != ModelAsk(key_variable=self.key_variable, file=self.file)

    def after(self, before: PlannedUpstream | None, weights: Path | None, *, same_model: bool) -> ModelAsk:
        """With what a run that goes on was started with for whatever was not said; `weights`: where it had them."""
        if before is None:
            return self
        said = replace(
            self, budget=_after(self.budget, before.budget), run_budget=_after(self.run_budget, before.run_budget)
        )
        if not same_model or self.provider not in (None, before.provider):
            return said
        server = before.server
        return replace(
            said,
            provider=before.provider,
            url=self.url if self.url is not None else before.base_url,
            file=self.file or (weights if server else None),
            gpus=self.gpus or (server is not None and server.gpus),
            context=self.context or (server.context if server else None),
        )


def _after(budget: PlannedBudget, before: PlannedBudget) -> PlannedBudget:
    return PlannedBudget(
        tokens=budget.tokens or before.tokens,
        usd=budget.usd or before.usd,
        exchanges=budget.exchanges or before.exchanges,
    )


def budget_of(tokens: int | None, usd: str | None, exchanges: int | None, flag: str) -> PlannedBudget:
    """`flag`: what the option for dollars is called. Raises UsageRefused for what bounds nothing."""
    for value, name in ((tokens, "tokens"), (exchanges, "exchanges")):
        if value is not None and value > _MOST_ASKED:
            where = flag.replace("usd", name)
            raise UsageRefused(f"over {_MOST_ASKED}: {value}", where=where, mend="a smaller one, or leave it away")
    if usd is not None:
        if not _USD.fullmatch(usd) or not usd.strip("0."):
            raise UsageRefused(f"no amount of US dollars: {usd!r}", where=flag, mend="as 0.50")
        whole, _, part = usd.partition(".")
        usd = total_usd((f"{int(whole)}.{part or '0'}",))
    return PlannedBudget(tokens=tokens, usd=usd, exchanges=exchanges)


def upstream_of(
    ask: ModelAsk, model: str | None, solvers: tuple[SolverDefinition, ...], images: Images
) -> PlannedUpstream | None:
    """Raises UsageRefused for words that do not fit together, or that no solver here has a use for."""
    if model is None or all(solver.wire is None for solver in solvers):
        _refuse_idle(ask)
        return None
    if not model.isprintable():
        raise UsageRefused(f"no model's name: {model!r}", where="--model", mend="its name as the provider writes it")
    provider = provider_for(solvers, ask.provider, url=ask.url, weights=_is_served_here(ask, model))
    _refuse_unfit(ask, provider)
    _refuse_unpriced(ask, model, provider)
    forwarder, _ = images.pin(_FORWARDER_IMAGE)
    return PlannedUpstream(
        provider=provider,
        base_url=ask.url,
        forwarder=forwarder,
        server=_server(ask, model, images) if provider == "local" else None,
        budget=ask.budget,
        run_budget=ask.run_budget,
    )


def sources_of(ask: ModelAsk, plans: tuple[TrialPlan, ...], kept: Path | None = None) -> ModelSources:
    """Where this machine has what the plans name; `kept`: where an earlier start of the run had its weights.

    Raises HostRefused where a provider's key is missing, or the processor is none that the engine of local models runs
    on: before anything is built or started.
    """
    for plan in plans:
        if plan.upstream is not None and plan.upstream.provider != "local":
            _refuse_keyless(plan.upstream, ask.key_variable)
    wanted = next((plan for plan in plans if plan.upstream is not None and plan.upstream.server is not None), None)
    if wanted is None:
        return ModelSources(key_variable=ask.key_variable)
    from appliance.images.weights import weights

    _refuse_unfit_processor()
    return ModelSources(weights=ask.file or kept or weights(wanted.model or "").path)


def _is_served_here(ask: ModelAsk, model: str) -> bool:
    """As far as its words say: a file was named, or weights are shipped under this name."""
    from appliance.images.weights import known_weights

    usual = ask.provider in (None, "local") and ask.url is None
    return ask.file is not None or (usual and model in known_weights())


def _weights(ask: ModelAsk, model: str) -> Weights:
    from appliance.images.weights import known_weights, weights

    if ask.file is None and model not in known_weights():
        known = ", ".join(sorted(known_weights()))
        raise UsageRefused(
            f"no weights of {model!r} are shipped; shipped are: {known}", where="--model", mend="--model-file PATH.gguf"
        )
    if ask.file is not None and not ask.file.is_file():
        raise UsageRefused("no such file", where=f"--model-file {ask.file}", mend="give a GGUF file")
    return weights(model, ask.file)


def _server(ask: ModelAsk, model: str, images: Images) -> PlannedServer:
    image, _ = images.pin(_SERVER_IMAGE)
    return PlannedServer(
        weights=_weights(ask, model).sha256,
        image=image,
        slots=1,
        threads=min(_MOST_THREADS, len(os.sched_getaffinity(0))),
        context=ask.context or CONTEXT_TOKENS,
        gpus=ask.gpus,
        sampling=dict(_SAMPLING),
    )


def _refuse_idle(ask: ModelAsk) -> None:
    if ask.planned or ask.file is not None:
        raise UsageRefused(
            "no solver here asks a model through the gateway: none has a wire in its TOML",
            where="--provider, --model-*, --budget-*, --gpus",
            mend="leave them away, or name another solver",
        )


def _refuse_unfit(ask: ModelAsk, provider: Provider) -> None:
    local = provider == "local"
    for given, flag, words in (
        (local and ask.url is not None, "--model-url", "the model is served here, on no URL"),
        (local and ask.key_variable is not None, "--model-key-env", "the model is served here, and takes no key"),
        (not local and ask.file is not None, "--model-file", f"the model is served by {provider}"),
        (not local and ask.gpus, "--gpus", f"the model is served by {provider}"),
        (not local and ask.context is not None, "--model-context", f"the model is served by {provider}"),
        (
            provider == "compatible" and ask.url is None,
            "--model-url",
            "missing: a compatible server has no place of its own",
        ),
    ):
        if given:
            raise UsageRefused(words, where=flag)
    if ask.context is not None and ask.context > _MOST_CONTEXT:
        raise UsageRefused(f"over {_MOST_CONTEXT}: {ask.context}", where="--model-context", mend="as 8192")
    if ask.url is not None:
        from appliance.gateway.upstreams.provider import checked_base

        checked_base(ask.url)


def _refuse_unpriced(ask: ModelAsk, model: str, provider: Provider) -> None:
    from appliance.gateway.budget import Budget, unpriced

    for budget, flag in ((ask.budget, "--budget-usd"), (ask.run_budget, "--run-budget-usd")):
        if budget.usd is None:
            continue
        words = unpriced(Budget(usd=budget.usd), model, provider, datetime.now(UTC))
        if words is not None:
            raise UsageRefused(words, where=flag, mend=f"{flag.replace('usd', 'tokens')} instead")


def _refuse_keyless(upstream: PlannedUpstream, variable: str | None) -> None:
    """A name that nearly is one of the models that are served here ends here: those are named, too."""
    from appliance.gateway.upstreams.provider import provider_upstream
    from appliance.images.weights import known_weights

    if upstream.provider == "local":
        return
    try:
        provider_upstream(upstream.provider, url=upstream.base_url, key_variable=variable)
    except HostRefused as refusal:
        if refusal.reason == "no_key" and variable is None:
            refusal.mend = f"{refusal.mend}; served here without one: {', '.join(sorted(known_weights()))}"
        raise


def _refuse_unfit_processor() -> None:
    """Raises HostRefused where the engine that serves models here would die of an illegal instruction."""
    try:
        cpuinfo = _CPUINFO.read_text(errors="replace")
    except OSError:
        return
    lacking = lacking_flags(cpuinfo)
    if lacking:
        raise HostRefused(
            f"the engine of local models needs {', '.join(lacking)}, which this processor lacks",
            where=f"{_CPUINFO}: flags",
            mend="another machine, or a server of your own: --provider compatible --model-url URL",
            reason="cpu",
        )


def refuse_without_gpu(plans: tuple[TrialPlan, ...], gpus: tuple[str, ...]) -> None:
    """Raises HostRefused where a plan's model server is to have a GPU that this host has not."""
    wanted = any(plan.upstream and plan.upstream.server and plan.upstream.server.gpus for plan in plans)
    if wanted and not gpus:
        raise HostRefused("this host has no GPU", where="--gpus", mend="leave it away", reason="no_gpu")
