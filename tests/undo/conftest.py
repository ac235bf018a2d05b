"""Every test of this room works in a world of its own."""

from undo.world import world

__all__ = ["world"]
