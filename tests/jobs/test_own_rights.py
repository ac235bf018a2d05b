"""The job: an agent that may do everything finds a rule in its way and tries to change the rules itself.

Neither its commands nor hooks change what is permitted; the person's own shell, script and `!` line do.
"""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

from program.stage import NEXUS, PRICED, QUICK, calls, stage

DENIES = '[rules]\ndeny = ["edit_file(locked/**)"]\n'
WIDENS = "nexus rules remove 'edit_file(locked/**)'"


def test_neither_a_command_of_the_model_nor_a_hook_changes_what_is_permitted(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        hook = f'[[hook]]\nevent = "SessionStart"\ncommand = "{quote(str(NEXUS))} {WIDENS[6:]} >hook 2>&1"\n'
        text = QUICK + PRICED + DENIES + hook
        file, results = place.settings(text), list[str]()

        def model(body: Any) -> dict[str, Any]:
            if body["messages"][-1]["role"] == "tool":
                results.append(body["messages"][-1]["content"])
                return {"text": "Done."}
            return calls(("bash", {"command": WIDENS}))

        place.script(model)
        for level in ("all", "auto"):
            assert place.ask("--allow", level, "edit it").status == 0
        said = (
            "nexus: rules remove: commands and hooks of a session cannot change what is permitted, or approve. Run it"
        )
        assert all(result.startswith(said) for result in results)
        assert len(results) == 2 and (place.folder / "hook").read_text().startswith(said)
        assert file.read_text() == text

        shown = place.shell("NEXUS_IN_SESSION=1 nexus import codex --dry-run")
        assert shown.status == 2 and "nothing to import from codex" in shown.told[-1], "what only shows is permitted"
        script = place.shell("nexus config set effort low && nexus rules remove 'edit_file(locked/**)'")
        assert script.status == 0 and DENIES not in file.read_text() and 'effort = "low"' in file.read_text()
