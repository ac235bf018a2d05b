"""Whether a text is a summary at all: a model that obeys what it reads answers with an order, or with nothing to say.

Pure, and careful: only a text that keeps next to nothing of what it stands for is doubted.
"""

from __future__ import annotations

import re

LEAST_SHARE = 0.1
"""Share of the commitments that an answer which begins like an order has to keep by itself."""
SHORT = 24
"""Tokens below which a text that keeps nothing is no summary, however it begins."""
LARGE = 2000
"""Tokens that have to go before a short text is doubted."""
ENOUGH = 3
"""Commitments that have to be there before a short text is doubted for keeping none."""

_ORDER = re.compile(
    r"\W*(?:(?:please|now|first|then|next|immediately|important|urgent|system|assistant|user)\b\W*)*"
    r"(?:(?:you (?:must|should|have to|need to|will)|ignore|disregard|forget|run|execute|call|use|delete|remove"
    r"|install|download|send|post|upload|write|reply|respond|answer|do not|don't|never|always|stop|sudo|rm|curl"
    r"|wget)\b)"
    r"(?!\s*:)",
    re.IGNORECASE,
)


def doubt(summary: str, *, tokens: int, gone: int, kept: int, total: int) -> str:
    """Why `summary` (of so many `tokens`) is not believed; "" where it is.

    It stands for `gone` tokens; of `total` commitments in them it keeps `kept` by itself.
    """
    share = kept / total if total else 0.0
    if _ORDER.match(summary) and share < LEAST_SHARE:
        return "the answer gives an order instead of a summary"
    if tokens < SHORT and gone >= LARGE and total >= ENOUGH and not kept:
        return f"the answer says nothing of what it stands for ({total} things to keep)"
    return ""
