"""Kinds of walls that a system offers: values. `probe` finds out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class Backend(StrEnum):
    """The holder of the walls."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BackendProbe:
    """The backend that was found, and how."""

    backend: Backend
    why: str = ""
    """Why there are no walls, or not those of a better backend."""
    abi: int = 0
    """Version of Landlock, capped at the newest that we know."""
    program: Path | None = None
    """bubblewrap."""
    walls: tuple[str, ...] = ()
    """Walls that were tried and held."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form: `backend`, `why`, and the `walls` that held."""
        return {"backend": str(self.backend), "why": self.why, "walls": list(self.walls)}
