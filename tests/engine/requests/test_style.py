"""The style of answers that a person chose: a section of a conversation, and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nexus_cli.core.budget import TokenBudget
from nexus_cli.core.clock import local_now
from nexus_cli.sections.contributor import Sources, View
from nexus_cli.sections.contributors.identity import CONTRIBUTORS
from nexus_cli.sections.identity_files import IdentityFile


def test_a_style_is_a_section_after_the_preferences_and_a_missing_file_is_a_notice(tmp_path: Path) -> None:
    files = {"PREFERENCES.md": "tabs", "styles/terse.md": "Three sentences."}

    def persona(names: Sequence[str]) -> list[IdentityFile]:
        return [IdentityFile(name, files[name], f"/c/{name}") for name in names if name in files]

    preferences = CONTRIBUTORS[1]
    view = View.of("m", "ask", TokenBudget.of(100_000), len)
    value = preferences.read(Sources.of(tmp_path, local_now(), persona=persona, style="terse"))
    shown = {one.id: one.forms[0] for one in preferences.render(value, view)}
    assert shown == {
        "preferences": "# Preferences (PREFERENCES.md)\ntabs",
        "preferences.style": "# Style of answers (terse)\nThree sentences.",
    }
    orders = [one.order for one in preferences.render(value, view)]
    assert orders == sorted(set(orders)) and not preferences.notices(value)
    value = preferences.read(Sources.of(tmp_path, local_now(), persona=persona, style="gone"))
    assert [one.id for one in preferences.render(value, view)] == ["preferences"]
    assert list(preferences.notices(value)) == ["ui.style: styles/gone.md beside config.toml is missing or empty"]
