"""The page of a report: the text as it is, curves that start at zero, nothing that runs and nothing that loads."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from appliance.report.plot import HEIGHT, WIDTH, Curve, plot
from appliance.report.render import render
from tests import record_builder as build
from tests.golden.test_report_text import rollouts, smoke

SVG = "{http://www.w3.org/2000/svg}"


def test_the_curve_of_best_of_k_is_drawn_against_dollars_and_both_kinds_of_joules() -> None:
    """A point a k, at the published figures (J28, J29, J31)."""
    page = render((rollouts(),), "html")
    drawn = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]  # noqa: S314
    titles = [one.findtext(f"{SVG}title") for one in drawn]
    assert titles == [
        "best of k, pass 0: resolved against dollars",
        "best of k, pass 0: resolved against joules of this host",
        "best of k, pass 0: resolved against joules of the provider (estimated)",
    ]
    for one in drawn:
        assert len(one.findall(f"{SVG}circle")) == 3
    heights = [float(circle.attrib["cy"]) for circle in drawn[0].findall(f"{SVG}circle")]
    assert heights[0] > heights[1] == heights[2]


def test_both_axes_start_at_zero_and_every_point_lies_inside() -> None:
    """Twice the dollars lie twice as far from the axis: no axis that flatters."""
    curve = Curve("a", ((1.0, 0.25, "k=1"), (2.0, 0.5, "k=2")))
    root = ElementTree.fromstring(plot("t", "dollars", [curve]))  # noqa: S314
    (one, two) = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.findall(f"{SVG}circle")]
    axes = [(float(line.attrib["x1"]), float(line.attrib["y1"])) for line in root.findall(f"{SVG}line")]
    left, bottom = axes[0]
    assert round(two[0] - left, 1) == round(2 * (one[0] - left), 1)
    assert round(bottom - two[1], 1) == round(2 * (bottom - one[1]), 1)
    for x, y in (one, two):
        assert 0 < x < WIDTH
        assert 0 < y < HEIGHT


def test_a_strangers_words_stay_words() -> None:
    """Names that are markup are escaped, in the text and in the curves."""
    plan = build.plan(["t1"], solver="agent", kind="command", model="<script>alert(1)</script>", rollouts=2)
    record = build.record(plan, [build.trial("t1"), build.trial("t1", rollout=1)])
    page = render((record,), "html")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "default-src" in page
    hostile = plot("<b>", "<i>", [Curve("<u>", ((1.0, 1.0, "<k>"),))])
    assert not re.search(r"<(b|i|u|k)>", hostile)


def test_a_curve_without_a_figure_is_said_to_lack_it() -> None:
    """Missing is not zero: no point at the axis (J32)."""
    plan = build.plan(["t1"], solver="agent", kind="command", model="m", rollouts=2)
    page = render((build.record(plan, [build.trial("t1"), build.trial("t1", rollout=1)]),), "html")
    assert "resolved against dollars: no figure in any record" in page


def test_without_rollouts_the_page_is_the_text() -> None:
    page = render(smoke(), "html")
    assert "<svg" not in page
    assert "<pre>" in page


def test_a_line_of_best_of_k_says_how_many_attempts_count() -> None:
    """What was excluded is in no figure, and no line poses as more tries than there were (J28)."""
    plan = build.plan(["t1"], solver="agent", kind="command", model="m", rollouts=3)
    trials = [build.trial("t1"), build.trial("t1", "excluded", rollout=1), build.trial("t1", "unresolved", rollout=2)]
    text = render((build.record(plan, trials),), "text")
    lines = [line.split() for line in text[text.index("best of k") :].splitlines()[2:5]]
    assert [" ".join(line[3:6]) for line in lines] == ["1 of 1", "1 of 2", "2 of 3"]


def test_tokens_that_are_not_known_are_said_to_be_so() -> None:
    """A model was asked, and its server did not tell: the line stands, without a number (J32)."""
    plan = build.plan(["t1"], solver="agent", kind="command", model="m")
    asked = build.trial("t1").model_copy(update={"exchanges": 2})
    assert "not known" in render((build.record(plan, [asked]),), "text")
    assert "input tokens" not in render((build.record(plan, [build.trial("t1")]),), "text")
