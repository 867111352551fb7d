"""What a trial's exchanges come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from appliance.gateway.drafts import Draft
from appliance.gateway.exchange import ReplayLevel
from appliance.gateway.outages import Outages
from appliance.gateway.usage import total
from appliance.ports import Traffic
from appliance.records.money import total_usd
from appliance.records.trial import Usage

_WORST_FIRST: Final[tuple[ReplayLevel, ...]] = ("structural", "masked", "exact")
_MOST_FAULTS: Final = 50
_NOTHING: Final = Usage(input_tokens=0, cache_read_tokens=0, cache_write_tokens=0, output_tokens=0, reasoning_tokens=0)


@dataclass
class Tally:
    free: str | None = "0"
    """What it costs where no answer was counted."""
    exchanges: int = 0
    answered: list[tuple[Usage | None, str | None]] = field(default_factory=list)
    """Of the requests that reached a model; what nobody waited for has neither."""
    whole: int = 0
    """Of those, the ones that came to their end."""
    over_budget: Literal["trial", "run"] | None = None
    divergence: str | None = None
    levels: set[ReplayLevel] = field(default_factory=set)
    differences: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    """Requests that never came whole, by why; those beyond the trial's bounds."""
    outages: Outages = field(default_factory=Outages)

    def add(self, draft: Draft) -> None:
        self.exchanges += 1
        if draft.answered or draft.left_unanswered:
            self.answered.append((draft.usage, draft.cost_usd))
            self.whole += draft.complete
            if draft.usage is None:
                self.faults.append(f"exchange {draft.order}: no usage: {draft.detail or 'its answer names none'}")
        if draft.replay_level is not None:
            self.levels.add(draft.replay_level)
        if self.over_budget is None and draft.refused in {"budget", "run_budget"}:
            self.over_budget = "trial" if draft.refused == "budget" else "run"
        if draft.route is None or not draft.generates:
            return
        if draft.failure is not None:
            self.outages.failed(draft.route.form, draft.body, f"exchange {draft.order}: {draft.failure}")
        elif draft.answered and draft.complete:
            self.outages.answered(draft.route.form, draft.body)

    def never_whole(self, why: str) -> None:
        if why in self.broken or len(self.broken) < _MOST_FAULTS:
            self.broken[why] = self.broken.get(why, 0) + 1

    def traffic(self, cassette: Path | None, transcript: Path | None, unused: int) -> Traffic:
        failed: Literal["provider_failed", "replay_diverged"] | None = None
        if self.divergence is not None:
            failed = "replay_diverged"
        elif self.outages.open is not None:
            failed = "provider_failed"
        more = len(self.faults) - _MOST_FAULTS
        return Traffic(
            exchanges=self.exchanges,
            usage=total(usage for usage, _ in self.answered) if self.answered else _NOTHING,
            cost_usd=total_usd(cost for _, cost in self.answered) if self.answered else self.free,
            cassette=cassette,
            transcript=transcript,
            failed=failed,
            detail="a request was not in the cassette" if failed == "replay_diverged" else self.outages.open,
            divergence=self.divergence,
            over_budget=self.over_budget,
            replay_level=next((level for level in _WORST_FIRST if level in self.levels), None),
            differences=tuple(self.differences),
            unused=unused,
            answered=self.whole,
            faults=(
                *self.faults[:_MOST_FAULTS],
                *((f"{more} more of these",) if more > 0 else ()),
                *(f"{count} times: {why}" for why, count in self.broken.items()),
            ),
        )
