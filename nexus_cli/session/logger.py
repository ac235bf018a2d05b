"""`SessionLogger`: the log of a session, for callers that build a `Session` from parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nexus_cli.config.ledger_place import ledger_place
from nexus_cli.core.clock import Clock, format_utc, local_now
from nexus_cli.ledger import LaneLog, Ledger


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Ledger and fields of a new session."""

    path: Path | None = None
    """The ledger's file; None for the person's ledger."""
    folder: Path = field(default_factory=Path.cwd)
    model: str = ""
    recipe: str = "chat"
    save: bool = True
    """False to keep the session in memory only."""


class SessionLogger(LaneLog):
    """A `LaneLog` that opens its ledger, and a new session in it."""

    def __init__(
        self, config: LogConfig | None = None, *, session: str | None = None, clock: Clock = local_now
    ) -> None:
        """Create and lock a session by `config`, or open `session`; raise `NexusError` of kind `ledger` or `usage`."""
        config = config or LogConfig()
        self.ledger = ledger = Ledger.open((config.path or ledger_place()) if config.save else None)
        try:
            if session is None:
                folder = config.folder.absolute()
                session = ledger.create_session(
                    folder=str(folder),
                    project=ledger.project_of(folder),
                    model=config.model,
                    recipe=config.recipe,
                    at=format_utc(clock()),
                ).id
                ledger.lock(session)
            super().__init__(ledger.db, session, clock=clock)
        except BaseException:
            ledger.close()
            raise

    def close(self) -> None:
        """Close the ledger. May be called twice."""
        self.ledger.close()
