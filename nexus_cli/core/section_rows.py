"""Rows of a request's sections, in our own count or in the unit of its budget."""

from __future__ import annotations

from collections.abc import Sequence

from nexus_cli.core.json_value import JsonDict, JsonObject

SectionRows = Sequence[JsonObject]
"""The `sections` of `nexus docs json`, with tokens by our own count."""
Why = tuple[str | int, ...]
"""Words and, as numbers, tokens by our own count: a report converts them to the unit of its other figures."""

JOINT = 1
"""Tokens that join two sections."""
NOTICES = "notices"
"""The section that is sent whenever it has text."""
UNREAD = "contributor"
"""The `source` of the row of a contributor that could not be read."""


def reason_text(form: str, score: float, tokens: int, why: Why) -> str:
    """Return the form and the reason as one line; with other figures in `why` it uses their unit."""
    detail = "" if form == "dropped" else f" (score {score:g}, {tokens:,} tokens)"
    text = "".join(part if isinstance(part, str) else f"{part:,}" for part in why)
    return form + detail + (f": {text}" if text else "")


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Share `total` in whole numbers in proportion to `weights`, by largest remainder; all 0 if these are."""
    weight_sum = sum(weights)
    if weight_sum <= 0 or total <= 0:
        return [0] * len(weights)
    parts = [total * weight // weight_sum for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % weight_sum), place))
    for place in by_remainder[: total - sum(parts)]:
        parts[place] += 1
    return parts


def scale_sections(rows: SectionRows, total: int, scale: float) -> list[JsonDict]:
    """Convert the tokens of section rows to the budget's unit; they sum to `total`, separators included."""
    tokens = apportion(total, [int(row["tokens"]) for row in rows])
    return [_scale_row(dict(row), part, scale) for row, part in zip(rows, tokens, strict=True)]


def _scale_row(row: JsonDict, tokens: int, scale: float) -> JsonDict:
    """Convert one section row; the figures of its reason are converted by the same scale."""
    counted = int(row["tokens"])
    full = int(row.get("full_tokens", counted))
    full_tokens = tokens if full == counted else max(tokens, round(full * scale))
    conversions, why = {full: full_tokens, counted: tokens}, row.pop("why", None)
    if why is not None:  # older ledgers have only the reason, in our own count
        parts = tuple(part if isinstance(part, str) else conversions.get(part, round(part * scale)) for part in why)
        row["reason"] = reason_text(row["form"], row["score"], tokens, parts)
    return row | {"tokens": tokens, "full_tokens": full_tokens, "counted": counted, "full_counted": full}
