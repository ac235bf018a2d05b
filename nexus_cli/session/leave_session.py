"""Leave a session for another one in the same front end."""

from __future__ import annotations

from nexus_cli.session.session import Session


def is_copy(session: Session, other: str) -> bool:
    """True if the session with the id `other`, "" for none yet, was forked from `session`."""
    return bool(other) and session.ledger is not None and session.ledger.session(other).parent == session.id


async def end_hooks(session: Session, other: str) -> None:
    """Run the hooks for the end of `session` before `other`, "" for a new one, is opened in its place."""
    if (hooks := session.dispatcher.hooks) and other != session.id:
        await hooks.end("resume" if other and not is_copy(session, other) else "clear")
