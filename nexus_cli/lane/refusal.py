"""What a provider says where it refuses a request as too long: whether its figures can be right.

They are a provider's own words, sometimes those of a proxy before it. What they change is up to `lane_window`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nexus_cli.context.tokens.estimator import FAR, LEAST, MOST
from nexus_cli.core.entry import Memo
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import ModelInfo

REFUSED_WINDOW = "refused_window"
"""Memo of a `window` that a refusal named and only this session uses (0: no longer), with the name by which the `model`
is served and the window that was `listed` for it then."""


def is_believable(error: ProviderError, counted: int) -> bool:
    """True if the figures of a refusal can be those of a request of which we count `counted`.

    The count may be that of the request alone or with the room for its answer; the window has to be one that the
    request can have exceeded.
    """
    most = MOST * counted + error.output_cap
    if error.limit and error.limit > most:
        return False
    if not error.counted:
        return True
    if LEAST * counted <= error.counted <= MOST * counted:
        return True
    # With a large room for the answer almost any figure is near to the sum: that has to be close.
    return counted / FAR <= error.counted - error.output_cap <= counted * FAR


def describe_disbelief(error: ProviderError, name: str, counted: int, window: int) -> str:
    """Return the line for a person about figures that cannot be right; `window` is what is used in this session, 0
    where that stays as it was."""
    said = [f"as {error.counted:,} tokens"] if error.counted else []
    said += [f"with a window of {error.limit:,}"] if error.limit else []
    then = f"using a window of {window:,} in this session only" if window else "ignoring them"
    what = f"a request of about {counted:,} tokens {' '.join(said)}"
    return f"{name} refused {what}. These figures cannot be right: {then}"


def with_session_window(info: ModelInfo, memos: Sequence[Memo]) -> ModelInfo:
    """Return `info` with the window that a refusal named earlier in the session, if table and settings list the same
    one as then."""
    listed = info.listed_window or info.window
    known = [memo.value for memo in memos if memo.value["model"] == info.served_name]
    if not known or known[-1]["listed"] != listed or not 0 < known[-1]["window"] < info.window:
        return info
    return replace(info, window=int(known[-1]["window"]), window_refused=True, listed_window=listed)
