"""The job: somebody copies the plugin of the documentation, installs it, and sees its pane; others are broken.

The lines are those of `nexus docs python-plugins`, installed as a package beside the real program.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, calls, stage
from terminal.terminal import Terminal

from nexus_cli.cli.doc_pages import page_text

SITE = "site"
PAGE = page_text("python-plugins")
IMPORTS = """
from nexus_cli.commands.command import Command
from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import Effect, Tool
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def package(place: Stage, name: str, source: str, entries: dict[str, str]) -> None:
    """Install a package with entry points as pip leaves it."""
    site = place.home.parent / SITE
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{key} = {value}\n" for key, value in entries.items()]
    (folder / "entry_points.txt").write_text("[nexus.plugins]\n" + "".join(lines))
    (site / f"{name}.py").write_text(source)


def install_page(place: Stage) -> None:
    """Install what the page shows: the pane, the tool and the command."""
    pane, more, _ = blocks("python")
    assert len([line for line in pane.splitlines() if line.strip()]) <= 20, "a plugin of 20 lines"
    (project,) = blocks("toml")
    made = tomllib.loads(project)["project"]
    package(place, "nexus_texts", pane + IMPORTS + more, made["entry-points"]["nexus.plugins"])


def environment(place: Stage) -> dict[str, str | None]:
    return {"PYTHONPATH": str(place.home.parent / SITE)}


def run(place: Stage, *words: str) -> Done:
    """A run of the program that finds the packages as with `environment`."""
    return place.run(*words, bug=f"import sys; sys.path.insert(0, {str(place.home.parent / SITE)!r})")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        (made.folder / "notes.txt").write_text("x\n")
        yield made


def test_the_plugin_of_the_documentation_adds_a_pane_a_tool_and_a_command(place: Stage) -> None:
    install_page(place)
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        results = [one for one in body["messages"] if one["role"] == "tool"]
        return {"text": "Done."} if results else calls(("count_words", {"text": "one two three"}))

    place.script(model)
    shown = place.run("context", "--json", installed=True, env=environment(place))
    sections = {one["id"]: one for one in shown.result["sections"]}
    assert sections["texts"]["source"] == "nexus_texts" and sections["texts"]["tokens"] > 0
    assert "nexus_texts" in run(place, "context").text
    assert "texts" not in run(place, "--no-plugins", "context").text

    done = run(place, "ask", "count")
    assert done.status == 0 and done.told == [], done
    assert "Text files here: notes.txt" in str(seen[0]["messages"][-1]["content"])
    assert next(one["content"] for one in seen[-1]["messages"] if one["role"] == "tool") == "3"
    assert run(place, "replay").status == place.run("replay").status == 0, "replay needs no plugin"

    assert run(place, "rules", "add", "deny", "count_words").status == 0, "a rule may name its tool"
    assert run(place, "ask", "--json", "count").result["denied"][0]["tool"] == "count_words"

    (row,) = run(place, "plugin", "list", "--json").result["python"]
    assert row["adds"] == ["tool count_words", "command words", "contributor texts"] and not row["problems"]
    assert run(place, "ask", "--no-plugins", "--no-save", "hi").status == 0
    assert "count_words" not in str(seen[-1]["tools"]) and "Text files" not in str(seen[-1]["messages"])


def test_its_command_is_in_the_menu_with_its_source(place: Stage) -> None:
    install_page(place)
    env = {**place.env(environment(place)), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    with Terminal([place.program], env=env, cwd=place.folder, columns=120, rows=40) as terminal:
        terminal.wait_for(lambda one: "/help" in "\n".join(one.lines()), 90)
        for text, shown in (("/word", "(plugin texts)"), ("s a b c\r", "3 words")):
            terminal.send(text)
            terminal.wait_for(lambda one, shown=shown: shown in "\n".join(one.lines()), 90)  # type: ignore[misc]


def test_broken_plugins_are_named_once_and_the_others_work(place: Stage) -> None:
    install_page(place)
    package(place, "raising", "raise RuntimeError('bad' + chr(10) + 'day')", {"raising": "raising"})
    package(place, "sleepy", "import time\nprint('noise')\ntime.sleep(600)", {"sleepy": "sleepy"})
    package(place, "silly", "x = 1", {"silly": "silly:missing"})
    place.script(["Fine."])
    done = run(place, "ask", "hi")
    assert done.status == 0 and done.text == "Fine.\n", done
    named = [line for line in done.told if line.endswith("; skipped")]
    assert [line.split()[2] for line in named] == ["raising", "silly", "sleepy"] and len(done.told) == 3, done.told
    assert "raises RuntimeError: bad" in named[0] and "raises AttributeError" in named[1]
    assert "takes longer than 5 s" in named[2]
    assert run(place, "--no-plugins", "context").told == []


@pytest.mark.matrix
def test_its_own_tests_run_ours(place: Stage) -> None:
    install_page(place)
    test = place.folder / "test_texts.py"
    test.write_text(blocks("python")[-1])
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir=.",
        test.name,
    ]
    env = place.env(environment(place))
    done = subprocess.run(command, cwd=place.folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
