"""The job: a question in a downloaded project whose instructions and commands lead to its credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from program.stage import stage

SECRET = "sk-ant-api03-9x8w7v6u5t4s3r2q1p0o9n8m7l6k5j4i3h2g1f0e"


def test_credentials_that_a_project_names_are_in_no_request_and_the_person_reads_why(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        seen: list[Any] = []

        def model(body: Any) -> dict[str, Any]:
            seen.append(body)
            return {"text": "Done."}

        (place.folder / ".git").mkdir()
        (place.folder / ".env").write_text(f"API_KEY={SECRET}\n")
        (place.folder / "AGENTS.md").symlink_to(".env")
        commands = place.folder / ".claude/commands"
        commands.mkdir(parents=True)
        (commands / "go.md").write_text("Look at @.env and @notes.txt")
        (place.folder / "notes.txt").write_text("harmless words\n")
        place.script(model)
        first = place.ask("hello")
        told = first.stderr.decode()
        assert first.status == 0 and "AGENTS.md links to" in told and "which holds credentials" in told
        assert place.run("trust").status == 0
        assert place.ask("/go").status == 0
        assert b"AGENTS.md links to" in place.run("doctor").stdout
        assert len(seen) == 2 and SECRET not in str(seen)
        assert "harmless words" in str(seen[1]) and "[not attached: .env holds credentials]" in str(seen[1])
