"""Check the figures in an overflow error, with which a provider refused a request as too long.

They are parsed from an error text, sometimes that of a proxy, so they may be wrong. `ContextManager` applies them.
"""

from __future__ import annotations

from nexus_cli.conversation.tokens.estimate import FAR, LEAST, MOST
from nexus_cli.core.errors import ProviderError


def is_believable(error: ProviderError, counted: int) -> bool:
    """True if the figures of an overflow error are plausible for a request of `counted` tokens by our count.

    The reported count may include the output cap. The reported window must be one that the request can have exceeded.
    """
    most = MOST * counted + error.output_cap
    if error.limit and error.limit > most:
        return False
    if not error.counted:
        return True
    if LEAST * counted <= error.counted <= MOST * counted:
        return True
    # With a large output cap almost any figure is near the sum, so the tolerance is smaller here.
    return counted / FAR <= error.counted - error.output_cap <= counted * FAR
