"""The context timeline as SVG: tokens by layer of each request, what came from the cache, rewrites, drops, cost.

A strip has a bar for each of up to `PER_STRIP` requests; one more shows the whole of a longer session. What came from
the cache is pale. The size of a strip does not depend on the screen: it is stretched to its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import ceil

from nexus_cli.core.budget import UsedTokens
from nexus_cli.core.entry import Cause
from nexus_cli.reports.page.request_figures import RequestFigures, describe_request
from nexus_cli.reports.text.lines import dollars, plural, short

PER_STRIP = 60
HEIGHT, COST_HEIGHT, WIDE = 100, 24, 10
"""Units of a strip: its height, that of its cost line, the width of a request."""
FEWEST = 12
"""A strip is at least as wide as so many requests."""
PRUNED = Cause.PRUNED.value
"""The cause of rewrites that only take old results out: frequent, so their lines are faint."""
LAYERS = tuple(field.name for field in fields(UsedTokens))


@dataclass(frozen=True, slots=True)
class _Bar:
    """One bar: a request, or several of which it shows the largest."""

    figures: RequestFigures
    href: str
    title: str
    rewrites: str
    """The cause of the rewrite of the window before it, "" for none; of several preferably not `PRUNED`."""
    drops: bool
    cost: float
    """Dollars so far, of the requests with a known price."""


def draw_strips(requests: Sequence[RequestFigures]) -> tuple[str, Sequence[tuple[str, Sequence[RequestFigures]]]]:
    """Return the strip of the whole session, "" if one strip shows it all, and the strips with their requests."""
    bars, cost, before = list[_Bar](), 0.0, frozenset[str]()
    for request in requests:
        cost += request.row.counted.cost_usd or 0.0
        ids = frozenset(drop.id for drop in request.drops[-40:])
        step = request.row.manifest.step
        bars.append(_Bar(request, f"#r{step}", _title(request), request.rewrite, not ids <= before, cost))
        before = ids
    top = max(1, *(request.used.total for request in requests)) * 1.06
    strips = [bars[first : first + PER_STRIP] for first in range(0, len(bars), PER_STRIP)]
    whole = plural(len(bars), "request")
    if len(strips) == 1:
        return "", [(_strip(whole, bars, top, cost), requests)]
    named_strips = [(f"{_step(strip[0]):,} to {_step(strip[-1]):,}", strip) for strip in strips]
    drawn = [
        (_strip(f"Requests {name}", strip, top, cost), [bar.figures for bar in strip]) for name, strip in named_strips
    ]
    return _strip(whole, [*_overview(bars)], top, cost), drawn


def _step(bar: _Bar) -> int:
    return bar.figures.row.manifest.step


def _overview(bars: Sequence[_Bar]) -> Iterator[_Bar]:
    size = ceil(len(bars) / PER_STRIP)
    for first in range(0, len(bars), size):
        part = bars[first : first + size]
        largest = max(part, key=lambda bar: bar.figures.used.total)
        title = f"Requests {_step(part[0]):,} to {_step(part[-1]):,}"
        causes = sorted((bar.rewrites for bar in part if bar.rewrites), key=lambda cause: cause == PRUNED)
        marks = causes[0] if causes else "", any(bar.drops for bar in part)
        yield _Bar(largest.figures, f"#strip{first // PER_STRIP + 1}", title, *marks, part[-1].cost)


def _title(request_figures: RequestFigures) -> str:
    after = f" after {request_figures.rewrite}" if request_figures.rewrite else ""
    return f"Request {request_figures.row.manifest.step:,}{after}: {describe_request(request_figures)}"


def _strip(title: str, bars: Sequence[_Bar], top: float, cost: float) -> str:
    width = WIDE * max(FEWEST, len(bars))
    paths = {(layer, cached): list[str]() for layer in LAYERS for cached in (True, False)}
    for place, bar in enumerate(bars):
        for key, path in _layer_paths(bar, place * WIDE, HEIGHT / top):
            paths[key].append(path)
    shapes = "".join(
        f'<path class="{layer}{" cached" if cached else ""}" d="{"".join(path)}"/>'
        for (layer, cached), path in paths.items()
        if path
    )
    cuts = {"rewrite": "", "rewrite small": ""}
    for place, bar in enumerate(bars):
        if bar.rewrites:
            cuts["rewrite small" if bar.rewrites == PRUNED else "rewrite"] += f"M{place * WIDE} 0v{HEIGHT}"
    drops = "".join(f"M{place * WIDE + 3} 0h4v4h-4z" for place, bar in enumerate(bars) if bar.drops)
    marked = {**cuts, "drop": drops}
    marks = "".join(f'<path class="{name}" d="{path}"/>' for name, path in marked.items() if path)
    links = "".join(
        f'<a href="{bar.href}"><title>{bar.title}</title>'
        f'<path class="hit" d="M{place * WIDE} 0h{WIDE}v{HEIGHT}h-{WIDE}z"/></a>'
        for place, bar in enumerate(bars)
    )
    caption = f"{title} · up to {short(max(bar.figures.used.total for bar in bars))} tokens"
    spent = ""
    if cost:
        steps = "".join(
            f"{'L' if place else 'M'}{place * WIDE + WIDE // 2} {COST_HEIGHT * (1 - 0.9 * bar.cost / cost) - 1:.1f}"
            for place, bar in enumerate(bars)
        )
        spent = (
            f'<svg class="cost" viewBox="0 0 {width} {COST_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
            f'<path d="{steps}"/></svg>'
        )
        caption += f" · {dollars(bars[-1].cost)} so far"
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<svg class="bars" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="group"'
        f' aria-label="{title}">'
        f"{shapes}{marks}{links}</svg>{spent}</figure>\n"
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
