"""What a provider says where it refuses a request as too long: whether its figures can be right.

They are a provider's own words, sometimes those of a proxy before it. What they change is up to `lane_state`.
"""

from __future__ import annotations

from nexus_cli.context.tokens.estimator import FAR, LEAST, MOST
from nexus_cli.core.errors import ProviderError


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
