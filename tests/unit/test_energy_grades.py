"""Provenance, basis and the floor."""

from __future__ import annotations

from typing import get_args

import pytest

from appliance.energy import floors, grades
from appliance.records import words


def test_the_words_are_those_of_the_record() -> None:
    """`energy` stands below `records` and cannot import them; they must not drift apart."""
    assert get_args(grades.Provenance) == get_args(words.Provenance)
    assert get_args(grades.Basis) == get_args(words.Basis)


@pytest.mark.parametrize(
    ("filesystem", "counter", "grade"),
    [
        ("sysfs", "rapl", grades.Grade("hw_shunt")),
        ("tmpfs", "rapl", grades.Grade("simulated", claimed="hw_shunt")),
        ("ext4", "rapl", grades.Grade("simulated", claimed="hw_shunt")),
        (None, "rapl", grades.Grade("simulated", claimed="hw_shunt")),
        (None, "nvml", grades.Grade("hw_shunt")),
        (None, "ioreport", grades.Grade("model_based")),
        (None, "powermetrics", grades.Grade("model_based")),
    ],
)
def test_only_the_kernels_own_files_speak_for_the_hardware(
    filesystem: str | None, counter: grades.CounterKind, grade: grades.Grade
) -> None:
    """A counter under another root is simulated, whatever it claims (J34 J40, decisions: Simulated counters)."""
    assert grades.grade_of(filesystem, counter) == grade


def test_a_sum_shows_its_worst() -> None:
    """(J46 L6)"""
    assert grades.worst_provenance(["hw_shunt", "estimator", "model_based"]) == "estimator"
    assert grades.worst_provenance(["estimator", "simulated"]) == "simulated"
    assert grades.worst_basis(["counter", "modelled", "apportioned"]) == "modelled"
    with pytest.raises(ValueError, match="empty"):
        grades.worst_provenance([])


def test_a_window_just_below_the_floor_is_flagged_and_one_at_it_is_not() -> None:
    """9.9 ms against a counter of 10 ms, and 10.0 ms (J41)."""
    assert floors.below(floors.RAPL, 9_900_000, None)
    assert not floors.below(floors.RAPL, 10_000_000, None)
    assert not floors.below(floors.ESTIMATOR, 100_000_000, 20_000_000)
    assert floors.below(floors.ESTIMATOR, 99_999_999, 20_000_000)


def test_the_floor_is_the_worst_of_the_counters_used() -> None:
    """RAPL 10 ms, NVML 1 s, estimator 100 ms; ten update periods where that is longer (J41)."""
    assert floors.worst([floors.RAPL, floors.NVML, floors.ESTIMATOR]).wall_ns == 1_000_000_000
    assert floors.Floor(1_000_000, 2_000_000).wall_ns == 20_000_000


def test_fewer_than_five_ticks_of_cpu_are_below_the_floor() -> None:
    """(decisions: ~)"""
    assert floors.below(floors.ESTIMATOR, 10**10, 19_999_999)
    assert not floors.below(floors.ESTIMATOR, 10**10, 20_000_000)
