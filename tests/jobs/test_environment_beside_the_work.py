"""The job: an hour in a project whose Python environment git does not ignore, and whose test cache ignores itself.

A person searches, changes a rate, lets a worker document it in a worktree, takes the apply back because it came too
early, applies it again, works until a command passes, and returns the next day. The environment is in nobody's way, and
that of the worktree is the worktree's.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from program.stage import calls
from project_files import write_files
from terminal.repl import Place, Repl, place
from terminal.terminal import ENTER

SHOP = "RATE = 2\n\n\ndef rate():\n    return RATE\n"
PATHS = ".venv/lib/python3.11/site-packages/shop.pth"
DOUBLE = {"path": "shop.py", "edits": [{"old": "RATE = 2", "new": "RATE = 4"}]}
DOCUMENT = {"path": "README.md", "edits": [{"old": "# Shop\n", "new": "# Shop\n\nThe rate is 4.\n"}]}


def model(body: Any) -> dict[str, Any]:
    """Plays the agent and its worker."""
    said = [str(one["content"]) for one in body["messages"] if one["role"] == "user"][-1]
    if body["messages"][-1]["role"] == "tool":
        return {"text": "It is done."}
    if "You are a worker" in said:
        return calls(("read_file", {"path": PATHS}), ("edit_file", DOCUMENT))
    if "where is the rate" in said:
        return calls(("grep", {"pattern": "RATE"}))
    if "double it" in said:
        return calls(("edit_file", DOUBLE), ("bash", {"command": "echo shop >> .pytest_cache/v/lastfailed"}))
    if "let a worker" in said:
        return calls(("agent", {"task": "document the rate", "worktree": True}))
    if "Not done yet" in said:
        return calls(("bash", {"command": "touch passed.txt"}))
    return {"text": "Nothing left to do."}


def fill(here: Place) -> None:
    """A repository with one commit; beside it an environment, with the project on its path, and a cache."""
    files = {
        "shop.py": SHOP,
        "README.md": "# Shop\n",
        ".venv/pyvenv.cfg": "version = 3.11.7\n",
        ".venv/lib/python3.11/site-packages/theirs.py": "RATE = 1\n",
        PATHS: f"{here.folder}\n",
        ".pytest_cache/.gitignore": "*\n",
        ".pytest_cache/CACHEDIR.TAG": "Signature: 8a477f597d28d172789f06886806bc55\n",
        ".pytest_cache/v/lastfailed": "{}\n",
    }
    write_files(here.folder, files)
    for words in ("init -q -b trunk", "add shop.py README.md", "-c user.name=a -c user.email=a@b commit -qm first"):
        subprocess.run(["git", *words.split()], cwd=here.folder, check=True)


def test_an_environment_that_git_does_not_ignore_is_in_nobodys_way(tmp_path: Path) -> None:
    with place(tmp_path, model, name="shop") as here:
        fill(here)
        readme = here.folder / "README.md"
        with Repl(here, "--allow", "edit", columns=100, rows=40) as one:
            one.ready()
            one.say("where is the rate?")
            found = here.server.requests[-1].results[-1]
            assert "shop.py" in found and "theirs.py" not in found

            one.say("double it", ends=False)
            one.asked_about("bash")
            one.send("y" + ENTER)
            one.wait_for("1 file (+1 -1) \N{MIDDLE DOT} 1 command")
            one.idle()
            one.send("/diff" + ENTER)
            one.wait_for("  .venv/")
            one.idle()
            assert not one.times("theirs.py") and not one.times("pyvenv.cfg")

            one.say("let a worker document it", ends=False)
            one.wait_for("/agents review w1")
            one.idle()
            (name,) = set(re.findall(r"\(worktree (\S+-w1)\)", "\n".join(one.scrollback())))
            (copy,) = (here.nexus_home / "data" / "worktrees").glob(f"*/{name}")
            assert (copy / PATHS).read_text() == f"{copy}\n", "its tests import the copy's code"
            one.send(f"/worktree list{ENTER}")
            one.wait_for("1 file +2 -0")
            for _ in range(2):  # too early, then for good
                one.send(f"/worktree apply {name}{ENTER}")
                one.wait_for(lambda _: "The rate is 4" in readme.read_text())
                one.idle()
                if not one.times("restored  README.md"):
                    one.send("/undo" + ENTER)
                    one.wait_for("restored  README.md")
                    assert readme.read_text() == "# Shop\n" and "The rate is 4" in (copy / "README.md").read_text()
            assert "RATE = 4" in (here.folder / "shop.py").read_text(), "the turn before it stays"

            one.send("/goal finish --until 'test -e passed.txt'" + ENTER)
            one.asked_about("bash")
            one.send("y" + ENTER)
            one.wait_for("`test -e passed.txt` exited 0 after 2 rounds")
            one.idle()
            one.send("exit" + ENTER)
            assert one.status() == 0
        with Repl(here, "-c", "--allow", "edit", columns=60, rows=40) as again:
            again.wait_for("exited 0 after 2 rounds")
            again.idle()
            assert again.times("undid turn 3: README.md") == 1
            shown = again.lines()
            assert shown.index("Nothing left to do.") < shown.index("\N{MIDDLE DOT} `test -e passed.txt` exits 1")
            assert "edit" in [line for line in shown if line][-1].split(" \N{MIDDLE DOT} ")
