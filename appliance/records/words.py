"""The closed vocabularies of a record (formats 6, Words)."""

from __future__ import annotations

from typing import Final, Literal, get_args

Outcome = Literal["resolved", "unresolved", "unscored", "errored", "excluded", "skipped", "cancelled"]
Reason = Literal[
    "tests_failed", "oracle_timeout", "no_verdict", "tampered", "patch_rejected", "timeout",
    "start_failed", "provider_failed", "protocol_incomplete", "replay_diverged",
    "baseline_passed", "baseline_error", "expect_failed", "engine_error", "grader_error", "budget",
    "dry_run", "filtered", "interrupted",
]  # fmt: skip
Cause = Literal["exit", "signal", "timeout", "oom", "pids", "disk", "budget"]
Provenance = Literal["hw_shunt", "model_based", "estimator", "simulated"]
Basis = Literal["counter", "sampled_power", "apportioned", "modelled"]
OracleKind = Literal["junit", "tap", "exit_code"]
Role = Literal["solver", "forwarder", "model", "judge", "harness"]
SolverKind = Literal["reference", "noop", "command", "chat", "cascade"]
Provider = Literal["anthropic", "openai", "google", "compatible", "local"]
EnergyMode = Literal["auto", "measured", "estimator", "estimator:curve"]
EnergyFlag = Literal[
    "below_idle", "bridged", "cgroup_left", "client_died", "contended", "counters_disagree", "cpu_excess",
    "cpus_changed", "edge_error", "ended_early", "gap", "gap_longer_than_wrap", "idle_busy", "idle_drift",
    "implausible", "late", "mirrored_dies", "negative_cpu", "no_idle", "no_samples", "out_of_range",
    "power_averaged", "psys_implausible", "ran_on", "reported_by_sibling", "reset",
    "sgx_energy_filtering_possible", "shared", "source_changed", "stale", "suspended", "thinned", "v1_reset",
    "zone_gone",
]  # fmt: skip
TestStatus = Literal["passed", "failed", "error", "skipped", "missing"]

REASONS_OF: Final[dict[Outcome, frozenset[Reason]]] = {
    "resolved": frozenset(),
    "unresolved": frozenset(
        {"tests_failed", "oracle_timeout", "no_verdict", "tampered", "patch_rejected", "timeout"},
    ),
    "unscored": frozenset(),
    "errored": frozenset({"start_failed", "provider_failed", "protocol_incomplete", "replay_diverged"}),
    "excluded": frozenset(
        {"baseline_passed", "baseline_error", "expect_failed", "engine_error", "grader_error", "budget"},
    ),
    "skipped": frozenset({"dry_run", "filtered"}),
    "cancelled": frozenset({"interrupted"}),
}
"""Every outcome but `resolved` and `unscored` needs one of its reasons."""

FLOOR_KINDS: Final[frozenset[SolverKind]] = frozenset({"reference", "noop", "cascade"})
"""Nothing of the work stands in their windows: a copy, nothing, or a client that waits for a cascade which runs beside
them. They are always below the floor, so that their joules enter no ranking (row J43)."""
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
ENERGY_FLAGS: Final[frozenset[str]] = frozenset(get_args(EnergyFlag))
UNRELIABLE: Final[frozenset[str]] = frozenset({"below_idle", "ended_early", "idle_busy"})
"""Flags of a net that may be less than what the trial took, nobody knows by how much: it enters no ranking."""
PROVENANCE_BEST_FIRST: Final[tuple[Provenance, ...]] = get_args(Provenance)
BASIS_BEST_FIRST: Final[tuple[Basis, ...]] = get_args(Basis)
NOISE: Final = frozenset({"cpu_load", "containers", "steal"})
"""Fitness checks whose warning makes a host `noisy` (harness row H13)."""
