"""`SkillCatalogue`: the skills that a session offers to its model, read once per epoch; those that fit a message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nexus_cli.context.sections.skills import SKILL, Skill, find_guides, may_have_skills

_CALL = re.compile(r"<(skill|command) name=.*?</\1>|\A/([\w:-]+)|(?<![\w$\\])\$([A-Za-z][\w:-]*)", re.DOTALL)
"""A call of a guide in a message, and the guide that was put behind the words."""
MOST_NAMED = 2
"""Most skills that are named for one message."""


@dataclass
class SkillCatalogue:
    """Reads the skills of a folder. The methods block and may be called in a thread."""

    cwd: Path
    about: Callable[[], str] = str
    """Returns the person's newest message."""
    _last: tuple[tuple[Skill, ...], int] | None = field(default=None)
    _is_new: bool = False

    def read(self) -> tuple[tuple[Skill, ...], int]:
        """Read the skills again; return them, and the number of inactive ones."""
        self._last, self._is_new = find_guides(self.cwd, SKILL), True
        return self._last

    def offered(self) -> list[dict[str, Any]]:
        """Return name and description of the skills for the model, as the newest `read` found them; read them if that
        was used for another epoch."""
        if self._last is None or not self._is_new:
            self.read()
        self._is_new = False
        return _describe(self._last[0] if self._last else ())

    def matching(self) -> list[dict[str, Any]]:
        """Return those of now that fit the words of the newest message, the best first, without those that it calls."""
        message = self.about()
        if not message or not may_have_skills(self.cwd):
            return []
        from nexus_cli.ledger.relevance import rank_relevant  # noqa: PLC0415  (only where there are skills)

        called = {found[2] or found[3] for found in _CALL.finditer(message)}
        skills = [one for one in _describe(find_guides(self.cwd, SKILL)[0]) if one["name"] not in called]
        texts = [f"{one['name'].replace('-', ' ')} {one['description']}" for one in skills]
        return [skills[place] for place in rank_relevant(texts, _CALL.sub(" ", message))[:MOST_NAMED]]


def _describe(skills: tuple[Skill, ...]) -> list[dict[str, Any]]:
    return [{"name": one.name, "description": one.description} for one in skills if one.is_offered]
