"""A goal of a session and the steps that it was broken down to (seed D's `goals`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Goal:
    """What the person wants in the end, or one step on the way."""

    id: str
    """`g1`, `g2`, ... in a session."""
    text: str
    done: bool = False
    parent: str = ""
    """The goal that it is a step of; "" for a goal of its own."""
