"""A curve as SVG: no script, no font, no address of anybody's; equal points give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 480
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 40, 24, 44
_STEPS: Final = 4
_COLOURS: Final = ("#1b6ca8", "#b5541c", "#2f7d32", "#7b3f99", "#8a6d00", "#555555")


@dataclass(frozen=True)
class Curve:
    name: str
    points: tuple[tuple[float, float, str], ...]
    """`(x, share resolved from 0 to 1, what stands beside it)`, in the order they are joined."""


def plot(title: str, across: str, curves: Sequence[Curve]) -> str:
    """Share resolved against what `across` counts, both from zero: no axis that flatters."""
    most = max((x for curve in curves for x, _, _ in curve.points), default=0.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" role="img"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
    ]
    for step in range(_STEPS + 1):
        share = step / _STEPS
        x, y = _x(share * most, most), _y(share)
        parts += [
            f'<line x1="{_LEFT}" y1="{y}" x2="{WIDTH - _RIGHT}" y2="{y}" stroke="#ddd"/>',
            f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{100 * share:.0f} %</text>',
            f'<text x="{x}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{share * most:.4g}</text>',
        ]
    parts.append(f'<text x="{(WIDTH + _LEFT) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(across)}</text>')
    for at, curve in enumerate(curves):
        parts += _drawn(curve, most, _COLOURS[at % len(_COLOURS)])
    return "\n".join([*parts, "</svg>"])


def _drawn(curve: Curve, most: float, colour: str) -> list[str]:
    places = [(_x(x, most), _y(share), label) for x, share, label in curve.points]
    joined = " ".join(f"{x},{y}" for x, y, _ in places)
    drawn = [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    for x, y, label in places:
        drawn.append(
            f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"><title>{escape(curve.name)} {escape(label)}</title>'
            f'</circle><text x="{x + 5}" y="{y - 5}" fill="{colour}">{escape(label)}</text>'
        )
    return drawn


def _x(value: float, most: float) -> float:
    return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * value / most, 1)


def _y(share: float) -> float:
    return round(HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * share, 1)
