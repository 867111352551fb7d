"""Records as one page: the text report, and the curves of test-time compute drawn. No script, nothing loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from html import escape
from typing import Final

from appliance.records.outline import AnyRecord
from appliance.records.summary import BestOfK, PassSummary
from appliance.report import joules
from appliance.report.cohorts import cohorts
from appliance.report.plot import Curve, plot
from appliance.report.text import named, render_text
from appliance.report.words import cell

_STYLE: Final = "body{font-family:sans-serif;margin:2em;max-width:70em}pre{overflow-x:auto}figure{margin:1em 0}"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_Spent = Callable[[BestOfK], float | None]
_NOTE: Final = "Unverified: no signature was checked; appliance verify RECORD does."


def render_html(records: Sequence[AnyRecord]) -> str:
    """Depends on the records alone; every word of theirs is escaped, and a policy forbids the page to load anything."""
    figures = "\n".join(_figures(records))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        f"<title>Report</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<p>{_NOTE}</p>\n"
        f"<pre>{escape(render_text(records))}</pre>\n{figures}\n</body>\n</html>\n"
    )


def _figures(records: Sequence[AnyRecord]) -> Iterator[str]:
    """Best of k, by cohort and pass, against each of what it spends; curves without such a figure are named."""
    for group in cohorts(records):
        several = [(name, found) for name, record in named(group.records) for found in record.summary.passes]
        drawn = [(name, found) for name, found in several if found.best_of_k]
        for sweep in sorted({found.pass_ for _, found in drawn}):
            here = [(name, found) for name, found in drawn if found.pass_ == sweep]
            for across, spent in _AXES:
                yield _figure(f"best of k, pass {sweep}: resolved against {across}", across, spent, here)


def _figure(title: str, across: str, spent: _Spent, several: Sequence[tuple[str, PassSummary]]) -> str:
    curves, without = [], []
    for name, found in several:
        points = [(spent(entry), entry.fraction, f"k={entry.k}") for entry in found.best_of_k]
        known = tuple((x, share, label) for x, share, label in points if x is not None)
        label = f"{cell(name)}{_labelled(across, found)}"
        if known:
            curves.append(Curve(label, known))
        if len(known) < len(points):
            without.append(label)
    if not curves:
        return f"<p>{escape(title)}: no figure in any record.</p>"
    caption = f"{title}: {', '.join(curve.name for curve in curves)}"
    if without:
        caption += f"; without a figure for some k: {', '.join(without)}"
    return f"<figure>\n{plot(title, across, curves)}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _labelled(across: str, found: PassSummary) -> str:
    near = found.local or found.energy
    return joules.label(near) if across == _LOCAL and near else ""


def _dollars(entry: BestOfK) -> float | None:
    return None if entry.cost_usd is None else float(Decimal(entry.cost_usd))


def _local(entry: BestOfK) -> float | None:
    return None if entry.local_uj is None else entry.local_uj / 1e6


def _cloud(entry: BestOfK) -> float | None:
    return None if entry.cloud_uj is None else entry.cloud_uj / 1e6


_LOCAL: Final = "joules of this host"
_AXES: Final = (("dollars", _dollars), (_LOCAL, _local), ("joules of the provider (estimated)", _cloud))
