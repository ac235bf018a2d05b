"""Values for the sandbox backend of a system; `probe` finds it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar


class Backend(StrEnum):
    """The mechanism that enforces the sandbox."""

    BWRAP = "bwrap"
    LANDLOCK = "landlock"
    SEATBELT = "seatbelt"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class BackendProbe:
    """The backend that was found, and what was tested."""

    json_fields: ClassVar = "backend why walls"
    backend: Backend
    why: str = ""
    """Why there is no sandbox, or why a better backend was rejected."""
    abi: int = 0
    """Landlock ABI version, capped at `landlock.NEWEST_ABI`."""
    program: Path | None = None
    """Path of bubblewrap."""
    walls: tuple[str, ...] = ()
    """Restrictions that were tested and are enforced."""
