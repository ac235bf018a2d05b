"""The job: a project whose Claude rules deny agents, skills, files and pushes: a worker in a worktree keeps to them, a
killed turn is resumed, and what the worker made is applied, undone and redone."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, end, stage, until
from programs import need
from project_files import commit_all, write_files

DENIED = ["Bash(git * main)", "Bash(* --force)", "Agent(reviewer)", "Skill(ship:*)", "Read(./.env)", "Edit(gen/**)"]
FILES = {
    ".claude/settings.json": json.dumps({"permissions": {"deny": DENIED, "ask": ["Bash(git commit*)"]}}),
    ".claude/agents/reviewer.md": "---\nname: reviewer\ndescription: Reviews\n---\nReview.\n",
    ".claude/agents/writer.md": "---\nname: writer\ndescription: Writes\n---\nWrite.\n",
    ".claude/skills/ship/SKILL.md": "---\nname: ship\ndescription: Ships\n---\nTag and push.\n",
    ".gitignore": ".env\n",
    ".env": "TOKEN=hidden-words\n",
    "gen/table.py": "TABLE = {}\n",
    "shop.py": "PRICE = 4\n",
    "old.txt": "one\n",
}
EDIT = {"path": "shop.py", "edits": [{"old": "4", "new": "5"}]}
JOB = "for i in $(seq 600); do sleep 1; done"
STEPS: dict[str, list[Any]] = {
    "DELEGATE": [
        calls(("agent", {"task": "REVIEW now", "recipe": "reviewer"}), ("skill", {"name": "ship"})),
        calls(("agent", {"task": "WRITE now", "recipe": "writer", "worktree": True})),
    ],
    "WRITE": [
        calls(
            ("read_file", {"path": ".env"}),
            ("bash", {"command": "cat {project}/.env"}),
            ("bash", {"command": "git push origin main"}),
            ("bash", {"command": "sh -c 'git push --force'"}),
            ("bash", {"command": "git commit -qam wip"}),
            ("bash", {"command": "echo 1 > {project}/gen/table.py"}),
        ),
        calls(("bash", {"command": "mkdir docs && touch docs/__init__.py && mv old.txt new.txt && echo a > docs/a"})),
    ],
    "SERVE": [calls(("bash", {"command": JOB, "background": True})), calls(("edit_file", EDIT)), {"delay": 600}],
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    need("git")
    with stage(tmp_path) as made:
        project = made.folder
        write_files(project, FILES)
        commit_all(project)
        subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "origin.git")], check=True)
        subprocess.run(["git", "remote", "add", "origin", str(tmp_path / "origin.git")], cwd=project, check=True)
        made.script(lambda body: answer(body, str(project)))
        yield made


def answer(body: Any, project: str) -> Any:
    """Return the next step of the newest message that names a task."""
    tasks = [(at, str(message["content"])) for at, message in enumerate(body["messages"]) if message["role"] == "user"]
    at, steps = next((at, STEPS[name]) for at, text in reversed(tasks) for name in STEPS if f"{name} now" in text)
    done = sum(message["role"] == "assistant" for message in body["messages"][at:])
    return json.loads(json.dumps(steps[done]).replace("{project}", project)) if done < len(steps) else "Done."


def results(place: Stage) -> set[str]:
    """Return the results of all calls so far, those of workers too."""
    messages = (message for request in place.server.requests for message in request.body["messages"])
    return {str(message["content"]) for message in messages if message["role"] == "tool"}


def test_a_worker_keeps_to_the_rules_and_its_work_is_applied_and_taken_back(place: Stage) -> None:
    assert place.run("trust").status == 0
    assert place.ask("--allow", "auto", "DELEGATE now").status == 0
    told = results(place)
    for rule in ("agent(reviewer)", "skill(ship*)", "read_file(./.env)", "bash(git * main)", "bash(* --force)"):
        assert any(f"not permitted: deny {rule}" in result for result in told), (rule, told)
    assert any("covered by deny edit_file(gen/**)" in result for result in told), told
    assert not any("hidden-words" in result for result in told)
    assert (place.folder / "gen/table.py").read_text() == FILES["gen/table.py"]
    assert not any((place.folder.parent / "origin.git/refs/heads").iterdir())
    [worktree] = json.loads(place.run("worktree", "list", "--json").stdout)["worktrees"]
    shown = place.run("worktree", "diff", worktree["name"]).text
    assert "docs/__init__.py" in shown and "rename to new.txt" in shown and ".env" not in shown, shown
    assert place.run("worktree", "apply", worktree["name"]).status == 0
    assert (place.folder / "docs/__init__.py").read_text() == "" and not (place.folder / "old.txt").exists()
    applied = ("--session", f"worktree-{worktree['name']}")
    assert place.run("undo", *applied).status == 0
    assert not (place.folder / "docs").exists() and (place.folder / "old.txt").exists()
    assert place.run("redo", *applied).status == 0 and (place.folder / "docs/a").read_text() == "a\n"


def test_a_turn_killed_beside_its_job_is_told_resumed_and_undone(place: Stage) -> None:
    assert place.run("trust").status == 0
    child = place.begin("ask", "--allow", "auto", "SERVE now")
    try:
        assert until(lambda: len(place.server.requests) == 3)
        assert "j1  running" in place.run("jobs").text
        child.send_signal(signal.SIGKILL)
        child.wait()
    finally:
        end(child)
    assert "j1  ended with the session" in place.run("jobs").text
    assert "no recorded response" in place.run("timeline").text
    assert "the end of this turn was not recorded" in place.run("export", "--markdown").text
    assert place.ask("-c", "--allow", "auto", "DELEGATE now").status == 0
    assert "ended with the session and is no longer running" in str(place.server.requests[3].body["messages"][-1])
    assert place.run("undo", "--turn", "1").status == 0
    assert (place.folder / "shop.py").read_text() == FILES["shop.py"]
