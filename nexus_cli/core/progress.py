"""Report how far long work has come, from where it is done to the front end that shows it.

A front end follows the work of its own context, which threads of `asyncio.to_thread` share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from nexus_cli.core.shared_types import T

Follower = Callable[[float], None]
"""Takes the share of the work that is done, from 0 to 1; called often, and from any thread."""
_follower: ContextVar[Follower | None] = ContextVar("follower", default=None)


@contextmanager
def follow_progress(follower: Follower) -> Iterator[None]:
    """Within the block, call `follower` with every share that is reported."""
    token = _follower.set(follower)
    try:
        yield
    finally:
        _follower.reset(token)


def report_share(share: float) -> None:
    """Report the share of the work that is done, from 0 to 1."""
    if (follower := _follower.get()) is not None:
        follower(share)


def track(items: Sequence[T], first: float = 0.0, last: float = 1.0) -> Iterator[T]:
    """Yield `items`, and report a share from `first` to `last` after each."""
    for number, item in enumerate(items, 1):
        yield item
        report_share(first + (last - first) * number / len(items))
