"""Does the first task of three well-known trees in Claude Code and in nexus, as their users do, and counts the keys.

`python tests/parity/keys.py FOLDER [NAME...]`; FOLDER has a clone of each tree, see `TREES`. Both programs begin in a
shell, with a model and a key; Claude Code has its first questions about theme and key behind it, which need its
service. Each task ends when what it is about stands in a request: the role of an agent, a guide, the reason of a hook.
An arrow counts as one key; a question is what a program waits for an answer to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from parity.peers import MODEL, NEXUS, Bench  # noqa: E402  (found from tests/, as pytest finds it)
from parity.run import PROGRAMS  # noqa: E402
from server.play import ScriptedServer  # noqa: E402
from terminal.tmux import Tmux  # noqa: E402

TREES = {
    "platformplatform/PlatformPlatform": "ed1dd2541d2f6b4db14acc1e79a64cd31ff5d3a5",
    "wshobson/agents": "367cb6a4a182cf7e9b0a17c9429f7411ddd9cf35",
    "obra/superpowers": "44c9b2d6e889982ac18c27d05a19fefe335194e1",
}
"""The trees on GitHub, each at the commit of the last figures; FOLDER has them by the name behind the slash."""
KEY = "sk-ant-nobody-0123456789012345678"
DOWN = "\x1b[B"
STILL = 1.5
"""Seconds without a change of the screen after which a program is taken to wait."""


@dataclass(frozen=True)
class Step:
    """What the person does once the program waits."""

    typed: str
    shown: str = ""
    """What the screen shows before."""
    asks: bool = False
    """True if the program asks a question."""
    sent: str = ""
    """What a request has afterwards."""


@dataclass(frozen=True)
class Task:
    """What the users of a tree do first."""

    name: str
    steps: Mapping[str, tuple[Step, ...]]
    """By program."""
    calls: Mapping[str, tuple[str, Mapping[str, Any]]]
    """The call that the model makes, by the message that leads to it."""
    tree: str = ""
    """The tree that they work in; "" for an empty repository."""


def _says(text: str, sent: str) -> Step:
    return Step(f"{text}\r", sent=sent)


def _trusts_claude() -> tuple[Step, ...]:
    return Step("claude\r"), Step(f"{DOWN}\r", "Yes, I trust this folder", asks=True)


def _installs_claude(name: str) -> tuple[Step, ...]:
    return Step(f"/plugin install {name}\r"), Step("\r", "Install for you (user scope)", asks=True)


def _installs_nexus(source: str) -> tuple[Step, ...]:
    return Step(f"nexus plugin add {source}\r"), Step("y\r", "Accept which?", asks=True)


REVIEW, BUILD = "Let backend-reviewer look at the last commit", "Run dotnet build"
APPLICATION = (
    _says(REVIEW, "You are a **backend-reviewer**"),
    _says("/build", "Use `developer-cli` exactly as written"),
    _says(BUILD, "Use the **build** skill"),
)
CLEAN = "Let python-pro look at app.py"
AGENT, SCAFFOLD = "You are a Python expert specializing in modern", "You are a Python project architecture expert"
IDEA = "Let us make a list of things to do"
SKILLS = (_says(IDEA, "Help turn ideas into fully formed designs"), Step("", sent="You have superpowers."))
TASKS = (
    Task(
        "an application with 12 agents and five hooks: trust it, an agent, a command, a hook that refuses",
        {
            "claude": (*_trusts_claude(), *APPLICATION),
            "nexus": (Step("nexus\r"), Step("/trust\r"), Step("y\r", "Trust it?", asks=True), *APPLICATION),
        },
        {
            REVIEW: ("Agent", {"description": "review", "prompt": "Review it.", "subagent_type": "backend-reviewer"}),
            BUILD: ("Bash", {"command": "dotnet build", "description": "builds"}),
        },
        "PlatformPlatform",
    ),
    Task(
        "a collection of 92 plugins: take two, an agent, a command",
        {
            "claude": (
                *_trusts_claude(),
                Step("/plugin marketplace add wshobson/agents\r"),
                *_installs_claude("python-development"),
                *_installs_claude("unit-testing"),
                _says(CLEAN, AGENT),
                _says("/python-development:python-scaffold a tool", SCAFFOLD),
            ),
            "nexus": (
                *_installs_nexus("wshobson/agents:python-development"),
                *_installs_nexus("wshobson/agents:unit-testing"),
                Step("nexus\r"),
                _says(CLEAN, AGENT),
                _says("/python-scaffold a tool", SCAFFOLD),
            ),
        },
        {
            CLEAN: (
                "Agent",
                {"description": "clean", "prompt": "Read it.", "subagent_type": "python-development:python-pro"},
            )
        },
    ),
    Task(
        "superpowers: take it, its start and a skill are in effect",
        {
            "claude": (
                *_trusts_claude(),
                Step("/plugin marketplace add obra/superpowers\r"),
                *_installs_claude("superpowers@superpowers-dev"),
                Step("/clear\r"),
                *SKILLS,
            ),
            "nexus": (*_installs_nexus("obra/superpowers"), Step("nexus\r"), *SKILLS),
        },
        {IDEA: ("Skill", {"skill": "superpowers:brainstorming"})},
    ),
)


def main(folder: Path, words: list[str]) -> int:
    """Do the tasks whose names have one of `words`, all without; return 1 if one was not done."""
    chosen = [task for task in TASKS if not words or any(word in task.name for word in words)]
    failed = 0
    print("| task | Claude Code | nexus |\n|---|---|---|")
    for task in chosen:
        cells = []
        for program in ("claude", "nexus"):
            with tempfile.TemporaryDirectory(prefix="keys-", ignore_cleanup_errors=True) as root:
                try:
                    keys, asked = _do_task(task, program, folder, Path(root).resolve())
                    cells.append(f"{keys} keys, {asked} question{'s' * (asked != 1)}")
                except AssertionError as why:
                    print(f"{program}: {why}", file=sys.stderr)
                    cells.append("not done")
                    failed = 1
        print(f"| {task.name} | {' | '.join(cells)} |", flush=True)
    return failed


def _do_task(task: Task, program: str, trees: Path, root: Path) -> tuple[int, int]:
    """Return the keys that a person presses for a task, and the questions that they answer."""
    home, work = root / "home", root / "work"
    for made in (home, work):
        made.mkdir()
    origin = ["clone", "-q", str(trees / task.tree)] if task.tree else ["init", "-q"]
    subprocess.run(["git", *origin, str(work)], check=True)
    _fill_home(home, trees)
    steps, programs = task.steps[program], Bench(root, PROGRAMS)
    path = f"{Path(programs.find('claude')).parent}:{Path(NEXUS).parent}:{os.environ['PATH']}"
    rules = [
        {"when": {"anywhere": said}, "then": {"calls": [{"name": name, "arguments": given}]}, "times": 1}
        for said, (name, given) in task.calls.items()
    ]
    script = {"rules": [{"when": {"offers": "-"}, "then": "title"}, *rules], "default": "finished"}
    with ScriptedServer(script) as server:
        env = {
            "HOME": str(home),
            "PATH": path,
            "LANG": "C.UTF-8",
            "PS1": "$ ",
            "NO_PROXY": "127.0.0.1",
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",
        }
        with Tmux(["bash", "--norc"], columns=100, rows=40, env=env, cwd=work) as terminal:
            for step in steps:
                _wait_for(terminal, f"{step.shown!r} on the screen", partial(_shows, terminal, step.shown))
                _wait_until_still(terminal)
                terminal.send(step.typed)
                sent = partial(_has_sent, server, step.sent)
                _wait_for(terminal, f"{step.sent!r} in a request after {step.typed!r}", sent)
            _wait_until_still(terminal)
    return sum(len(step.typed.replace(DOWN, "v")) for step in steps), sum(step.asks for step in steps)


def _fill_home(home: Path, trees: Path) -> None:
    """Write what both programs know from before, and let git find the trees in `trees`."""
    keys = {"approved": [KEY[-20:]], "rejected": []}
    known = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": keys}
    (home / ".claude.json").write_text(json.dumps(known))
    mode = {"permissions": {"defaultMode": "default"}}  # the check of its automatic mode runs at its service
    for name, text in (
        (".claude/settings.json", json.dumps(mode)),
        (".config/nexus/config.toml", f'model = "{MODEL}"\n'),
    ):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text)
    for name in TREES:
        for link in (home / "hub" / name, home / "hub" / f"{name}.git"):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((trees / name.rpartition("/")[2]).resolve())
    hosts = "".join(
        f"insteadOf = {host}\n" for host in ("https://github.com/", "git@github.com:", "ssh://git@github.com/")
    )
    (home / ".gitconfig").write_text(f'[url "{home}/hub/"]\n{hosts}[safe]\ndirectory = *\n')


def _has_sent(server: ScriptedServer, text: str) -> bool:
    """Return True if `text` is in a request, and every request has its answer."""
    told = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    return all(one.done for one in server.requests) and (not text or any(told in one.raw for one in server.requests))


def _shows(terminal: Tmux, text: str) -> bool:
    return text in _screen(terminal)


def _screen(terminal: Tmux) -> str:
    return "\n".join(terminal.lines())


def _wait_for(terminal: Tmux, what: str, condition: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what}\n{_screen(terminal)}"
        time.sleep(0.1)


def _wait_until_still(terminal: Tmux) -> None:
    seen, since = "", time.monotonic()
    end = since + 60
    while time.monotonic() - since < STILL and time.monotonic() < end:
        now = _screen(terminal)
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
