"""Which provider answers, what it may cost, and what a plan says of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.cli.modelling import ModelAsk, budget_of, refuse_without_gpu, sources_of, upstream_of
from appliance.errors import HostRefused, UsageRefused
from appliance.pins import Pin
from appliance.records.plan import PlannedBudget, PlannedServer, PlannedUpstream
from appliance.solvers.definition import SolverDefinition, read_definition
from appliance.solvers.finding import find_solver
from appliance.trials.model_server import server_argv, server_limits
from appliance.trials.models import Spending, spending_of
from appliance.trials.planning import plan_trials
from appliance.trials.upstreams import dollars_of, provider_for
from tests.record_builder import trial
from tests.trials_suites import images, options, pin, small_suite, write_solver

AT = datetime(2026, 1, 2, tzinfo=UTC)


def speaking(folder: Path, wire: str) -> SolverDefinition:
    return read_definition(write_solver(folder, wire, f'model = "required"\nwire = "{wire}"\nargv = ["x"]\n'))


def planned(**changes: Any) -> PlannedUpstream:
    value: dict[str, Any] = {
        "provider": "openai",
        "base_url": None,
        "forwarder": pin(9),
        "server": None,
        "budget": PlannedBudget(),
        "run_budget": PlannedBudget(),
    }
    return PlannedUpstream(**(value | changes))


def server(**changes: Any) -> PlannedServer:
    value: dict[str, Any] = {
        "weights": "a" * 64,
        "image": pin(8),
        "slots": 1,
        "threads": 2,
        "context": 4096,
        "gpus": False,
        "sampling": {"temperature": 0.0, "seed": 42.0},
    }
    return PlannedServer(**(value | changes))


class _Images:
    def pin(self, name: str) -> tuple[Pin, bool]:
        return pin(sum(name.encode())), True


def asked(ask: ModelAsk, *solvers: SolverDefinition, model: str | None = "gpt-4o") -> PlannedUpstream | None:
    return upstream_of(ask, model, solvers, _Images())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wire", "given", "url", "weights", "provider"),
    [
        ("anthropic", None, None, False, "anthropic"),
        ("openai-chat", None, None, False, "openai"),
        ("openai-responses", None, None, False, "openai"),
        ("gemini", None, None, False, "google"),
        ("openai-chat", None, "http://127.0.0.1:1", False, "compatible"),
        ("anthropic", None, "http://127.0.0.1:1", False, "anthropic"),
        ("openai-chat", None, None, True, "local"),
        ("anthropic", None, None, True, "local"),
        ("openai-chat", "compatible", None, True, "compatible"),
    ],
)
def test_the_provider_is_the_wires_own_unless_somebody_says_otherwise(
    tmp_path: Path, *, wire: str, given: Any, url: str | None, weights: bool, provider: str
) -> None:
    """Row M13."""
    assert provider_for((speaking(tmp_path, wire),), given, url=url, weights=weights) == provider


@pytest.mark.parametrize(
    ("wire", "given"),
    [
        ("openai-chat", "anthropic"),
        ("anthropic", "openai"),
        ("gemini", "local"),
        ("gemini", "compatible"),
        ("openai-responses", "google"),
    ],
)
def test_a_wire_that_the_provider_does_not_speak_is_refused_by_name(tmp_path: Path, wire: str, given: Any) -> None:
    """Status 2, before anything runs (row M13)."""
    with pytest.raises(UsageRefused, match=f"{wire} speaks {wire}"):
        provider_for((speaking(tmp_path, wire),), given, url=None, weights=False)


def test_solvers_of_two_providers_need_one_that_speaks_to_both(tmp_path: Path) -> None:
    """One run, one provider: the usual ones differ (row M13)."""
    both = (speaking(tmp_path, "anthropic"), speaking(tmp_path, "openai-chat"))
    with pytest.raises(UsageRefused, match="no one provider is usual"):
        provider_for(both, None, url=None, weights=False)
    assert provider_for(both, "local", url=None, weights=True) == "local"
    assert provider_for((find_solver("noop"), both[1]), None, url=None, weights=False) == "openai"


def test_words_about_a_model_that_nobody_asks_are_refused(tmp_path: Path) -> None:
    """A budget that bounds nothing is no budget; `--model` alone is, as ever, the solver's own affair (row M15)."""
    assert asked(ModelAsk(), find_solver("noop")) is None
    with pytest.raises(UsageRefused, match="no solver here asks a model"):
        asked(ModelAsk(budget=PlannedBudget(tokens=5)), find_solver("noop"))


@pytest.mark.parametrize(
    ("ask", "where"),
    [
        (ModelAsk(provider="compatible"), "--model-url"),
        (ModelAsk(provider="openai", gpus=True), "--gpus"),
        (ModelAsk(provider="openai", context=512), "--model-context"),
        (ModelAsk(provider="local", url="http://127.0.0.1:1", file=Path(__file__)), "--model-url"),
        (ModelAsk(provider="local", key_variable="X", file=Path(__file__)), "--model-key-env"),
        (ModelAsk(provider="openai", file=Path(__file__)), "--model-file"),
        (ModelAsk(provider="local", file=Path("not/there.gguf")), "--model-file not/there.gguf"),
        (ModelAsk(provider="compatible", url="http://x", budget=PlannedBudget(usd="1")), "--budget-usd"),
        (ModelAsk(provider="openai", run_budget=PlannedBudget(usd="1")), "--run-budget-usd"),
    ],
)
def test_words_that_do_not_fit_their_provider_are_refused(tmp_path: Path, ask: ModelAsk, where: str) -> None:
    """Status 2, naming the flag; dollars can be kept to only where there is a price (row M15)."""
    with pytest.raises(UsageRefused) as refusal:
        asked(ask, speaking(tmp_path, "openai-chat"), model="unheard-of")
    assert refusal.value.where == where


def test_a_local_model_is_planned_by_its_weights_and_its_engine(tmp_path: Path) -> None:
    """Whatever makes the same experiment, and nothing that does not: equal weights elsewhere, equal plan (row M10)."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "w.gguf").write_bytes(b"GGUF weights")
    solver = speaking(tmp_path, "openai-chat")
    one, other = (asked(ModelAsk(file=tmp_path / folder / "w.gguf"), solver, model="small") for folder in ("a", "b"))
    assert one == other
    assert one is not None
    assert one.server is not None
    assert (one.provider, one.server.slots, one.server.context) == ("local", 1, 4096)
    assert one.server.sampling == {"temperature": 0.0, "seed": 42.0}
    (tmp_path / "b" / "w.gguf").write_bytes(b"GGUF other")
    assert asked(ModelAsk(file=tmp_path / "b" / "w.gguf"), solver, model="small") != one


def test_the_server_has_one_slot_and_no_cache_between_requests() -> None:
    """Rows M10, M11: what makes equal requests get equal answers stands on its command line."""
    words = " ".join(server_argv(server(), "small"))
    for flags in ("-np 1", "-c 4096", "-t 2 -tb 2", "--cache-ram 0", "--jinja", "--offline", "--temp 0", "--seed 42"):
        assert f" {flags}" in words
    assert " -ngl 0" in words
    assert " -ngl 999" in " ".join(server_argv(server(gpus=True), "small"))
    limits = server_limits(server(), 1 << 30)
    assert (limits.cpus, limits.memory_mib) == (2.0, 1024 + 1280)


def test_an_upstream_that_cannot_be_is_no_value() -> None:
    """An invalid one cannot exist (design 10)."""
    with pytest.raises(ValidationError, match="model server"):
        planned(provider="local")
    with pytest.raises(ValidationError, match="model server"):
        planned(server=server())
    with pytest.raises(ValidationError, match="needs a URL"):
        planned(provider="compatible")


@pytest.mark.parametrize(
    ("url", "beside"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://localhost/v1", True),
        ("http://127.0.0.1.models.example", False),
        ("https://models.example", False),
        ("http://[half", False),
        (None, False),
    ],
)
def test_a_server_beside_the_run_is_told_from_one_afar(url: str | None, beside: bool) -> None:
    """Cloud joules are of other machines (row J33)."""
    one = planned(provider="openai", base_url=url)
    assert (one.is_beside, one.is_far) == (beside, not beside)
    assert not planned(provider="local", server=server()).is_far


@pytest.mark.parametrize(
    ("text", "usd"), [("1", "1"), ("0.50", "0.5"), ("007", "7"), ("0.000001", "0.000001"), (None, None)]
)
def test_a_budget_in_dollars_is_an_exact_amount(text: str | None, usd: str | None) -> None:
    """As the record writes money (formats 6)."""
    assert budget_of(None, text, None, "--budget-usd").usd == usd


@pytest.mark.parametrize("text", ["0", "0.00", "-1", "1e3", "one", "", "0.1234567890123456789"])
def test_what_is_no_amount_is_no_budget(text: str) -> None:
    """Status 2, naming the flag."""
    with pytest.raises(UsageRefused, match="no amount of US dollars"):
        budget_of(None, text, None, "--budget-usd")


@pytest.mark.parametrize("name", ["tokens", "exchanges"])
@pytest.mark.parametrize("flag", ["--budget-usd", "--run-budget-usd"])
def test_a_budget_that_bounds_nothing_is_refused(name: str, flag: str) -> None:
    """Status 2, naming the flag: further on no JSON number is exact, and no plan can hold it (row M15)."""
    most = {"tokens": None, "exchanges": None, name: 10**12}
    assert getattr(budget_of(most["tokens"], None, most["exchanges"], flag), name) == 10**12
    over = {"tokens": None, "exchanges": None, name: 10**12 + 1}
    with pytest.raises(UsageRefused, match="over 1000000000000") as refusal:
        budget_of(over["tokens"], None, over["exchanges"], flag)
    assert refusal.value.where == flag.replace("usd", name)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://models.example/v1",
        "http://[::1",
        "127.0.0.1:18377",
        "models.example",
        "http://",
        "http://me:key@models.example",
        "http://models.example/v1?key=1",
        "http://models.example/\udcff",
        "http://models\n.example",
        "http://models.example/a b",
        "http://models.example:port",
    ],
)
def test_what_is_no_base_url_is_refused_when_planned(tmp_path: Path, url: str) -> None:
    """Status 2 in a dry run, too: a plan that was shown can be run (row M13)."""
    for provider in ("compatible", "openai", None):
        with pytest.raises(UsageRefused) as refusal:
            asked(ModelAsk(provider=provider, url=url), speaking(tmp_path, "openai-chat"))  # type: ignore[arg-type]
        assert refusal.value.where == "--model-url"


def test_a_models_name_and_context_that_no_plan_can_hold_are_refused(tmp_path: Path) -> None:
    """Status 2, naming the flag (row M13)."""
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF weights")
    solver = speaking(tmp_path, "openai-chat")
    for ask, model, where in (
        (ModelAsk(), "gpt\udcff", "--model"),
        (ModelAsk(), "gpt\n4", "--model"),
        (ModelAsk(file=weights, context=10**23), "small", "--model-context"),
    ):
        with pytest.raises(UsageRefused) as refusal:
            asked(ask, solver, model=model)
        assert refusal.value.where == where


def test_words_that_were_not_said_again_are_those_of_the_run_that_goes_on(tmp_path: Path) -> None:
    """What was said is all that can differ from its plan (row H22)."""
    before = planned(
        provider="compatible", base_url="http://models.example/v1", budget=PlannedBudget(tokens=5, usd=None)
    )
    for ask in (ModelAsk(), ModelAsk(budget=PlannedBudget(exchanges=3))):
        now = asked(ask.after(before, None, same_model=True), speaking(tmp_path, "openai-chat"))
        assert now is not None
        assert (now.provider, now.base_url) == (before.provider, before.base_url)
        assert now.budget == PlannedBudget(tokens=5, exchanges=ask.budget.exchanges)
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF weights")
    here = planned(provider="local", server=server(context=8192, gpus=True))
    assert ModelAsk().after(here, weights, same_model=True) == ModelAsk(
        provider="local", file=weights, context=8192, gpus=True
    )
    assert ModelAsk().after(here, weights, same_model=False) == ModelAsk()
    assert ModelAsk(provider="openai").after(here, weights, same_model=True) == ModelAsk(provider="openai")
    assert ModelAsk().after(None, weights, same_model=True) == ModelAsk()
    dollars = planned(budget=PlannedBudget(usd="1"), run_budget=PlannedBudget(exchanges=4))
    kept = ModelAsk(run_budget=PlannedBudget(tokens=9)).after(dollars, None, same_model=False)
    assert (kept.budget, kept.run_budget) == (PlannedBudget(usd="1"), PlannedBudget(tokens=9, exchanges=4))


def test_the_dollars_of_a_run_are_bounded_by_the_tighter_budget(tmp_path: Path) -> None:
    """`--dry-run` says the worst, from budgets and the prices of the day; nobody knows more (row M15, design 8)."""
    suite, solver = small_suite(tmp_path / "suite", "a", "b"), speaking(tmp_path, "openai-chat")

    def found(**changes: Any) -> Any:
        asked_for = options(model="gpt-4o", rollouts=5, upstream=planned(**changes))
        return dollars_of((plan_trials(suite, solver, images(), asked_for),), AT)

    assert found().worst_usd is None
    assert (found().input_per_million_usd, found().output_per_million_usd) == ("2.5", "10")
    assert found(budget=PlannedBudget(usd="0.3")).worst_usd == "3"
    assert found(budget=PlannedBudget(usd="0.3"), run_budget=PlannedBudget(usd="2")).worst_usd == "2"
    assert found(budget=PlannedBudget(tokens=1000)).worst_usd == "0.1"
    assert found(budget=PlannedBudget(exchanges=1)).worst_usd is None
    assert (
        "no unheard-of"
        in dollars_of(
            (plan_trials(suite, solver, images(), options(model="unheard-of", upstream=planned())),), AT
        ).words
    )
    here = planned(provider="local", server=server())
    local = dollars_of((plan_trials(suite, solver, images(), options(model="small", upstream=here)),), AT)
    assert (local.worst_usd, local.words) == (None, "no price: a model of this machine's own takes joules")
    noop = plan_trials(suite, find_solver("noop"), images(), options(model="gpt-4o", upstream=planned()))
    assert noop.upstream is None
    assert dollars_of((noop,), AT).words == "0 (no model)"


def test_what_earlier_trials_have_spent_counts_for_the_run() -> None:
    """Also of those that are run once more; one without a price leaves the dollars unknown (row M15)."""
    assert spending_of(()) == Spending()
    one = trial().model_copy(update={"exchanges": 2})
    assert spending_of((one,)).exchanges == 2
    assert spending_of((one,)).usd is None or one.cost_usd.subject is not None


def test_a_missing_key_is_named_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the variable and its mend; the value is never said (row M16)."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    suite = small_suite(tmp_path / "suite")
    plan = plan_trials(suite, speaking(tmp_path, "openai-chat"), images(), options(model="gpt-4o", upstream=planned()))
    with pytest.raises(HostRefused, match="OPENAI_API_KEY") as refusal:
        sources_of(ModelAsk(), (plan,))
    assert refusal.value.mend is not None
    assert "export OPENAI_API_KEY=" in refusal.value.mend
    # A name that nearly is one of them ends here, too.
    assert "smollm2-135m" in refusal.value.mend
    with pytest.raises(HostRefused, match="MY_KEY"):
        sources_of(ModelAsk(key_variable="MY_KEY"), (plan,))
    monkeypatch.setenv("MY_KEY", "sk-something")
    assert sources_of(ModelAsk(key_variable="MY_KEY"), (plan,)).key_variable == "MY_KEY"


def test_gpus_that_are_not_there_are_refused(tmp_path: Path) -> None:
    """Status 4 (issue 6: GPU if there is one, recorded)."""
    suite, solver = small_suite(tmp_path / "suite"), speaking(tmp_path, "openai-chat")
    for gpus in (True, False):
        way = planned(provider="local", server=server(gpus=gpus))
        plan = plan_trials(suite, solver, images(), options(model="small", upstream=way))
        refuse_without_gpu((plan,), ("NVIDIA H200",))
        if gpus:
            with pytest.raises(HostRefused, match="no GPU"):
                refuse_without_gpu((plan,), ())
        else:
            refuse_without_gpu((plan,), ())


@pytest.mark.parametrize("lacking", ["avx", "avx2", "fma", "f16c", "bmi2"])
def test_a_processor_without_the_engines_instructions_is_refused_by_their_name(
    lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 4 before anything starts: the engine would die of the first of them (row M10)."""
    from appliance.cli import modelling

    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF weights")
    way = planned(provider="local", server=server())
    suite, solver = small_suite(tmp_path / "suite"), speaking(tmp_path, "openai-chat")
    plan = plan_trials(suite, solver, images(), options(model="small", upstream=way))
    flags = ["fpu", "avx", "avx2", "fma", "f16c", "bmi1", "bmi2"]
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr(modelling, "_CPUINFO", cpuinfo)
    for told in (None, "processor\t: 0\nFeatures\t: fp asimd\n", f"processor\t: 0\nflags\t\t: {' '.join(flags)}\n"):
        if told is not None:
            cpuinfo.write_text(told)
        assert sources_of(ModelAsk(file=weights), (plan,)).weights == weights
    flags.remove(lacking)
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {' '.join(flags)}\n")
    with pytest.raises(HostRefused, match=f"needs {lacking}, which this processor lacks"):
        sources_of(ModelAsk(file=weights), (plan,))
