"""When an upstream is asked again, and whose failure an answer is."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from appliance.gateway.retries import Proven, RetryPolicy, providers_failure, retry_after, wait_before_next

_POLICY = RetryPolicy(tries=4, first_wait_seconds=1.0, longest_wait_seconds=60.0)


def test_waits_double_and_are_drawn_between_half_and_all_of_it() -> None:
    """Row M17."""
    longest = [wait_before_next(_POLICY, made, 503, (), 0.0) for made in (1, 2, 3)]
    shortest = [wait_before_next(_POLICY, made, 503, (), 1.0) for made in (1, 2, 3)]
    assert longest == [1.0, 2.0, 4.0]
    assert shortest == [0.5, 1.0, 2.0]


def test_after_the_last_try_there_is_no_wait() -> None:
    """Row M17."""
    assert wait_before_next(_POLICY, 4, 503, (), 0.0) is None


def test_no_wait_by_backoff_is_longer_than_the_longest() -> None:
    assert wait_before_next(RetryPolicy(tries=99), 50, None, (), 0.0) == 60.0


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529, None])
def test_what_may_pass_is_tried_again(status: int | None) -> None:
    """Row M17: None is no answer at all."""
    assert wait_before_next(_POLICY, 1, status, (), 0.0) == 1.0


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422, 501])
def test_what_will_be_the_same_is_not_tried_again(status: int) -> None:
    assert wait_before_next(_POLICY, 1, status, (), 0.0) is None


def test_the_provider_s_own_word_for_it_goes_first() -> None:
    assert wait_before_next(_POLICY, 1, 429, (("x-should-retry", "false"),), 0.0) is None
    assert wait_before_next(_POLICY, 1, 400, (("x-should-retry", "true"),), 0.0) == 1.0


def test_retry_after_is_kept_to_and_is_bounded() -> None:
    """Row M17: beyond the bound the agent gets the answer at once, and waits as it likes."""
    assert wait_before_next(_POLICY, 1, 429, (("retry-after", "7"),), 0.9) == 7.0
    assert wait_before_next(_POLICY, 1, 429, (("retry-after", "3600"),), 0.9) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("retry-after", "2.5"),), 2.5),
        ((("retry-after-ms", "1500"), ("retry-after", "9")), 1.5),
        ((("retry-after", "Mon, 30 Nov 2026 12:00:30 GMT"),), 30.0),
        ((("retry-after", "Mon, 30 Nov 2026 11:00:00 GMT"),), 0.0),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "9" * 400),), None),
        ((("retry-after", "soon"),), None),
        ((("retry-after", ""),), None),
        ((), None),
    ],
)
def test_retry_after_is_read_in_each_of_its_forms(headers: tuple[tuple[str, str], ...], seconds: float | None) -> None:
    assert retry_after(headers, datetime(2026, 11, 30, 12, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("status", "head"),
    [
        (429, b""), (500, b""), (529, b""), (401, b""), (402, b""), (403, b""), (404, b""), (302, b""),
        (400, b'{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}'),
        (400, b'{"error":{"message":"Your credit balance is too low to access the API."}}'),
    ],
)  # fmt: skip
def test_an_outage_a_key_and_an_account_are_the_provider_s_side(status: int, head: bytes) -> None:
    """Row M17: none of these may be taken for an unresolved task."""
    assert providers_failure(status, head, Proven(), Proven()) is not None


@pytest.mark.parametrize(("status", "head"), [(400, b"prompt is too long"), (413, b""), (422, b"")])
def test_a_request_that_no_model_could_take_is_the_agent_s_own(status: int, head: bytes) -> None:
    assert providers_failure(status, head, Proven(), Proven()) is None


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404])
def test_what_is_refused_after_an_answer_is_the_agent_s_own(status: int) -> None:
    """Row M17: outages stay the provider's."""
    assert providers_failure(status, b"API_KEY_INVALID", Proven(answered=True), Proven(answered=True)) is None
    assert providers_failure(503, b"", Proven(answered=True), Proven(answered=True)) is not None


@pytest.mark.parametrize(("status", "whose"), [(401, "provider"), (402, "provider"), (403, "provider"), (404, "agent")])
def test_another_trial_s_answer_vouches_for_the_model_and_not_for_the_key(status: int, whose: str) -> None:
    """Row M17: keys are taken back in the middle of a run."""
    found = providers_failure(status, b"", Proven(), Proven(answered=True))
    assert (found is None) == (whose == "agent")
