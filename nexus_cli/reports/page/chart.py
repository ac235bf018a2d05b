"""The context timeline as SVG: tokens by layer of each request, what came from the cache, rewrites, drops, cost.

It has a bar for each request, and scrolls where they do not fit. What came from the cache is pale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Cause
from nexus_cli.reports.page.request_figures import RequestFigures, describe_request
from nexus_cli.reports.text.lines import dollars, plural, short

HEIGHT, COST_HEIGHT, WIDE = 100, 24, 10
"""Units of the chart: its height, that of its cost line, the width of a request."""
NARROWEST = 6
"""Pixels of the width of a request; a chart with room is stretched."""
FEWEST = 12
"""The chart is at least as wide as so many requests."""
PRUNED = Cause.PRUNED.value
"""The cause of rewrites that only take old results out: frequent, so their lines are faint."""
LAYERS = tuple(field.name for field in fields(UsedTokens))


@dataclass(frozen=True, slots=True)
class _Bar:
    """The bar of one request."""

    figures: RequestFigures
    drops: bool
    """True if more was left out than of the request before."""
    cost: float
    """Dollars so far, of the requests with a known price."""


def draw_chart(requests: Sequence[RequestFigures]) -> str:
    """Return the chart of the requests of a session, of which there is at least one."""
    bars, cost, before = list[_Bar](), 0.0, frozenset[str]()
    for request in requests:
        cost += request.row.counted.cost_usd or 0.0
        ids = frozenset(drop.id for drop in request.drops[-40:])
        bars.append(_Bar(request, not ids <= before, cost))
        before = ids
    largest, title = max(request.used.total for request in requests), plural(len(bars), "request")
    caption = f"{title} · up to {short(largest)} tokens" + (f" · {dollars(cost)} so far" if cost else "")
    size = f'width="{NARROWEST * len(bars)}" preserveAspectRatio="none" viewBox="0 0 {WIDE * max(FEWEST, len(bars))}'
    shapes = _draw_layers(bars, max(1, largest) * 1.06) + _draw_marks(bars) + "".join(_links(bars))
    chart = f'<svg class="bars" {size} {HEIGHT}" role="group" aria-label="{title}">{shapes}</svg>'
    if cost:
        steps = "".join(
            f"{'L' if place else 'M'}{place * WIDE + WIDE // 2} {COST_HEIGHT * (1 - 0.9 * bar.cost / cost) - 1:.1f}"
            for place, bar in enumerate(bars)
        )
        chart += f'<svg class="cost" {size} {COST_HEIGHT}" aria-hidden="true"><path d="{steps}"/></svg>'
    return f'<figure><figcaption>{caption}</figcaption><div class="scroll">{chart}</div></figure>\n'


def _links(bars: Sequence[_Bar]) -> Iterator[str]:
    """Yield a link to the panel of each request."""
    for place, bar in enumerate(bars):
        step, rewrite = bar.figures.row.manifest.step, bar.figures.rewrite
        title = f"Request {step:,}{f' after {rewrite}' if rewrite else ''}: {describe_request(bar.figures)}"
        shape = f'<path class="hit" d="M{place * WIDE} 0h{WIDE}v{HEIGHT}h-{WIDE}z"/>'
        yield f'<a href="#r{step}"><title>{title}</title>{shape}</a>'


def _draw_marks(bars: Sequence[_Bar]) -> str:
    """Draw a line before each request whose window was rewritten, and a mark where more was left out."""
    marks = {"rewrite": "", "rewrite small": "", "drop": ""}
    for place, bar in enumerate(bars):
        if cause := bar.figures.rewrite:
            marks["rewrite small" if cause == PRUNED else "rewrite"] += f"M{place * WIDE} 0v{HEIGHT}"
        if bar.drops:
            marks["drop"] += f"M{place * WIDE + 3} 0h4v4h-4z"
    return "".join(f'<path class="{name}" d="{path}"/>' for name, path in marks.items() if path)


def _draw_layers(bars: Sequence[_Bar], top: float) -> str:
    """Draw the layers of the requests; `top` tokens are the height of the chart."""
    paths = {(layer, cached): list[str]() for layer in LAYERS for cached in (True, False)}
    for place, bar in enumerate(bars):
        for key, path in _layer_paths(bar, place * WIDE, HEIGHT / top):
            paths[key].append(path)
    return "".join(
        f'<path class="{layer}{" cached" if cached else ""}" d="{"".join(path)}"/>'
        for (layer, cached), path in paths.items()
        if path
    )


def _layer_paths(bar: _Bar, left: int, scale: float) -> Iterator[tuple[tuple[str, bool], str]]:
    """Yield the rectangles of one bar, each with its layer and True for the part from the cache."""
    bottom, cached = 0, bar.figures.cached
    for layer in LAYERS:
        size = getattr(bar.figures.used, layer)
        pale = max(0, min(size, cached - bottom))
        for part, is_cached in ((pale, True), (size - pale, False)):
            if part:
                high, y = part * scale, HEIGHT - (bottom + part) * scale
                yield (layer, is_cached), f"M{left + 1} {y:.1f}h{WIDE - 2}v{high:.1f}h-{WIDE - 2}z"
                bottom += part
