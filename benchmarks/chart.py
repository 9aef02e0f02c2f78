"""A line chart as SVG, by hand: a few lines and labels need no library, and the file stays readable in a diff."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["Points", "line_chart"]

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 48, 52
COLORS = ("#1f6feb", "#8b949e", "#d1242f", "#9a6700")


def line_chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """An SVG document.

    Args:
        title: above the chart.
        x_label: below it. The x axis is logarithmic, so x must be positive.
        y_label: beside it. The y axis is linear and begins at 0.
        lines: points by the name of the line, in order of x.
    """
    every = [point for points in lines.values() for point in points]
    low, high = min(x for x, _ in every), max(x for x, _ in every)
    top = _ceiling(max(y for _, y in every))
    span = math.log(high / low) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        across = math.log(x / low) / span
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="20" font-size="15">{escape(title)}</text>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>',
    ]
    for step in range(6):
        value = top * step / 5
        _, y = place(low, value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for power in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1):
        x, _ = place(10.0**power, 0)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#d0d7de"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>')
    for number, (name, points) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        x = LEFT + 190 * number
        parts.append(f'<path d="M{x} 36h18" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 24}" y="40">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _ceiling(value: float) -> float:
    """A round number that is not below ``value``."""
    if value <= 0:
        return 1.0
    unit: float = 10.0 ** math.floor(math.log10(value))
    return next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= value)
