"""The context timeline as SVG: tokens by layer of each request, what came from the cache, rewrites, drops.

A strip has a bar for each of up to `PER_STRIP` requests. What came from the cache is pale. The size of a strip does not
depend on the screen: it is stretched to its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nexus_cli.core.entry import Cause
from nexus_cli.reports.page.request_figures import RequestFigures, describe_request
from nexus_cli.reports.text.lines import dollars, number, short

PER_STRIP = 60
HEIGHT, WIDE = 100, 10
"""Units of a strip: its height, and the width of a request."""
FEWEST = 12
"""A strip is at least as wide as so many requests."""
LEGEND = {"system": "system text", "tools": "tool schemas", "history": "history", "event": "event"}
"""The layers, as the page names them."""


def draw_strips(requests: Sequence[RequestFigures]) -> Iterator[str]:
    """Yield the strips, oldest first."""
    top, spent = max(1, *(request.used.total for request in requests)) * 1.06, 0.0
    for first in range(0, len(requests), PER_STRIP):
        part = requests[first : first + PER_STRIP]
        spent += sum(request.row.counted.cost_usd or 0.0 for request in part)
        yield _strip(part, top, spent)


def _title(request_figures: RequestFigures) -> str:
    after = f" after {request_figures.rewrite}" if request_figures.rewrite else ""
    parts = ", ".join(f"{text} {number(getattr(request_figures.used, name))}" for name, text in LEGEND.items())
    return f"Request {request_figures.row.manifest.step:,}{after}: {describe_request(request_figures)} ({parts})"


def _strip(requests: Sequence[RequestFigures], top: float, spent: float) -> str:
    title = f"Requests {requests[0].row.manifest.step:,} to {requests[-1].row.manifest.step:,}"
    width = WIDE * max(FEWEST, len(requests))
    paths = {(layer, cached): list[str]() for layer in LEGEND for cached in (True, False)}
    marked, links = {"rewrite": "", "rewrite small": "", "drop": ""}, ""
    for left, request in zip(range(0, width, WIDE), requests, strict=False):
        for key, path in _layer_paths(request, left, HEIGHT / top):
            paths[key].append(path)
        if request.rewrite:  # those that only take old results out are frequent: their lines are faint
            marked["rewrite small" if request.rewrite == Cause.PRUNED.value else "rewrite"] += f"M{left} 0v{HEIGHT}"
        if request.leaves_out:
            marked["drop"] += f"M{left + 3} 0h4v4h-4z"
        links += f'<a href="#e{request.row.manifest.last + bool(request.row.usage)}"><title>{_title(request)}</title>'
        links += f'<path class="hit" d="M{left} 0h{WIDE}v{HEIGHT}h-{WIDE}z"/></a>'
    shapes = "".join(
        f'<path class="{layer}{" cached" if cached else ""}" d="{"".join(path)}"/>'
        for (layer, cached), path in paths.items()
        if path
    )
    marks = "".join(f'<path class="{mark}" d="{path}"/>' for mark, path in marked.items() if path)
    caption = f"{title} · up to {short(max(request.used.total for request in requests))} tokens"
    caption += f" · {dollars(spent)} so far" if spent else ""
    return (
        f"<figure><figcaption>{caption}</figcaption>"
        f'<svg class="bars" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="group"'
        f' aria-label="{title}">'
        f"{shapes}{marks}{links}</svg></figure>\n"
    )


def _layer_paths(request: RequestFigures, left: int, scale: float) -> Iterator[tuple[tuple[str, bool], str]]:
    """Yield the rectangles of one bar, each with its layer and True for the part from the cache."""
    bottom, cached = 0, request.cached
    for layer in LEGEND:
        size = getattr(request.used, layer)
        pale = max(0, min(size, cached - bottom))
        for part, is_cached in ((pale, True), (size - pale, False)):
            if part:
                high, y = part * scale, HEIGHT - (bottom + part) * scale
                yield (layer, is_cached), f"M{left + 1} {y:.1f}h{WIDE - 2}v{high:.1f}h-{WIDE - 2}z"
                bottom += part
