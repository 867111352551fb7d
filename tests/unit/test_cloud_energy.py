"""What a provider drew is a model's word: redone by hand, labelled wherever it goes, never a zero for an unknown."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.energy import cloud
from appliance.records.cloud import cloud_figure, with_cloud
from appliance.records.summarise import summarise
from appliance.records.trial import Usage
from appliance.report.text import render_text
from tests import record_builder as build

USAGE = Usage(
    input_tokens=10_000, cache_read_tokens=8_000, cache_write_tokens=500, output_tokens=400, reasoning_tokens=300
)
TOKENS = st.integers(0, 10**9)


def test_the_joules_are_tokens_times_coefficients_by_hand() -> None:
    """2,000 fresh at 0.3 J, 8,000 cached at 0.03 J, 400 written at 2.2 J: 1,720 J; ends 256 and 8,000 J (J33)."""
    found = cloud.cloud(10_000, 8_000, 400)
    assert found.net_uj == 600_000_000 + 240_000_000 + 880_000_000
    assert found.interval == (100_000_000 + 0 + 156_000_000, 1_600_000_000 + 2_400_000_000 + 4_000_000_000)


@given(TOKENS, TOKENS, TOKENS)
def test_the_point_lies_in_its_interval_and_more_tokens_never_take_less(fresh: int, cached: int, out: int) -> None:
    one = cloud.cloud(fresh + cached, cached, out)
    more = cloud.cloud(fresh + cached + 1, cached, out + 1)
    assert one.interval[0] <= one.net_uj <= one.interval[1]
    assert more.net_uj > one.net_uj
    exact = Fraction(fresh * 3, 10) + Fraction(cached * 3, 100) + Fraction(out * 22, 10)
    assert Fraction(one.net_uj, 10**6) == exact


def test_the_figure_carries_its_coefficients_and_their_source() -> None:
    """Provenance is estimator, always; coefficient and source stand in the record (J33)."""
    figure = cloud_figure(USAGE)
    assert (figure.provenance, figure.basis, figure.comparable) == ("estimator", "modelled", False)
    assert figure.model == "cloud-tokens/1"
    assert figure.inputs is not None
    assert figure.inputs["microjoulesAToken"]["output"] == [2_200_000, 390_000, 10_000_000]
    assert "Epoch AI" in figure.inputs["source"]


def test_unknown_tokens_have_no_joules_and_say_why() -> None:
    """Missing is not zero, and neither is the sum with it (J32)."""
    figure = cloud_figure(None)
    assert (figure.net_uj, figure.missing) == (None, "tokens of an answer are not known")
    whole = with_cloud(build.energy(build.counted_figure(5_000_000)), figure)
    assert whole.total.net_uj is None
    assert whole.total.missing == figure.missing
    assert whole.local is not None
    assert whole.local.net_uj == 5_000_000


def test_a_counters_joules_and_a_models_make_a_models() -> None:
    """The sum shows its worst (J46); what was measured stays as it is, beside it."""
    near = build.counted_figure(5_000_000, uncertainty_uj=300_000)
    whole = with_cloud(build.energy(near), cloud_figure(USAGE))
    assert whole.local == near
    assert whole.total.net_uj == 5_000_000 + 1_720_000_000
    assert (whole.total.provenance, whole.total.basis) == ("estimator", "modelled")
    assert whole.total.interval == (4_700_000 + 256_000_000, 5_300_000 + 8_000_000_000)


def test_a_simulated_counter_taints_the_sum() -> None:
    near = build.counted_figure(1, provenance="simulated", claimed="hw_shunt", comparable=False)
    assert with_cloud(build.energy(near), cloud_figure(USAGE)).total.provenance == "simulated"


@pytest.mark.parametrize("known", [True, False])
def test_a_pass_says_what_was_here_and_what_was_the_providers(known: bool) -> None:
    """Both sides are summed apart; tokens are summed only where every trial has them (J32, J33)."""
    near = build.energy(build.counted_figure(5_000_000))
    trials = [
        build.trial(task, energy=with_cloud(near, cloud_figure(usage))).model_copy(
            update={"usage": build.trial().usage.model_copy(update={"subject": usage})}
        )
        for task, usage in (("t1", USAGE), ("t2", USAGE if known else None))
    ]
    plan = build.plan(["t1", "t2"], solver="agent", kind="command", model="m")
    found = summarise(plan, trials).passes[0]
    assert found.local is not None
    assert found.cloud is not None
    assert found.local.net_uj == 10_000_000
    assert found.local.basis == "counter"
    assert found.cloud.net_uj == (3_440_000_000 if known else None)
    assert (found.usage.input_tokens if found.usage else None) == (20_000 if known else None)
    text = render_text((build.record(plan, trials),))
    assert "of it the provider  3440.0 J (estimated)" in text or not known
    assert "of it the provider  missing in 1 of 2" in text or known
    assert ("20,000" in text) == known


def test_a_pass_without_a_provider_has_one_side_only() -> None:
    found = summarise(build.plan(["t1"]), [build.trial("t1")]).passes[0]
    assert (found.local, found.cloud, found.usage) == (None, None, None)


def test_coefficients_are_ordered() -> None:
    for one in (cloud.INPUT, cloud.CACHED, cloud.OUTPUT):
        assert one.low <= one.point <= one.high
        assert replace(one) == one
