"""The programs of the bench: how each is found, and how it plays a row in a tree and a home of its own.

A peer is the real program from npm, of the version that `package.json` pins, offline: its provider is the scripted
server on loopback. Nexus plays the same row from the same path, so that paths need no replacement.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from parity.rows import Played, Row
from server.play import ScriptedServer

PACKAGES = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "pi": "@mariozechner/pi-coding-agent",
    "opencode": "opencode-ai",
}
EDITOR = "acpx"
"""The client of ACP that plays the editor, and its package."""
INSTALL_SCRIPTS = {"claude": "install.cjs", "opencode": "postinstall.mjs"}
"""The one script of a package, which puts the program in place."""
OPENCODE_OFFLINE = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
"""The variables with which opencode asks nobody but its provider."""
MODEL = "anthropic/claude-sonnet-4-5"
SECONDS = 300
"""After so long a program is ended, and its row was not run."""
NEXUS = str(Path(sys.executable).with_name("nexus"))


Prepare = Callable[[ScriptedServer, Path, Path], tuple[list[str], dict[str, str]]]
"""Makes command line and environment of a program for a server, a home and a tree."""


class NotRun(Exception):
    """A row cannot be played here; the text says why."""


@dataclass(frozen=True)
class Bench:
    """Where rows are played."""

    root: Path
    """A folder for trees and homes; each row makes both anew."""
    programs: Path
    """Where npm puts the peers."""

    def find(self, peer: str) -> str:
        """Return the program of a peer, installed if it is not there. Raises `NotRun`."""
        name = PACKAGES.get(peer, peer)
        pinned = json.loads(Path(__file__).with_name("package.json").read_text())["dependencies"][name]
        folder, package = self.programs / peer, f"{name}@{pinned}"
        program = folder / "node_modules/.bin" / peer
        if self._version(program) != pinned:
            if shutil.which("npm") is None:
                raise NotRun("npm is not installed")
            folder.mkdir(parents=True, exist_ok=True)
            line = ["npm", "install", "--prefix", str(folder), "--no-save", "--ignore-scripts", package]
            done = subprocess.run(line, capture_output=True, text=True, timeout=1800)
            if done.returncode:
                raise NotRun(f"npm install {package}: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")
            if script := INSTALL_SCRIPTS.get(peer):
                subprocess.run(["node", script], cwd=folder / "node_modules" / name, capture_output=True, timeout=600)
        if (version := self._version(program)) != pinned:
            raise NotRun(f"{peer} is {version or 'not there'}, not {pinned}")
        return str(program)

    def _version(self, program: Path) -> str:
        env = {"HOME": str(self.root), "PATH": os.environ["PATH"]}
        try:
            done = subprocess.run([program, "--version"], env=env, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.SubprocessError):
            return ""
        words = (done.stdout or done.stderr).replace("codex-cli", "").split()
        return words[0] if words else ""

    def play_peer(self, row: Row) -> Played:
        """Play a row by its peer. Raises `NotRun`."""
        return self._play(row, self._begin_peer(row), self._continue_peer(row))

    def play_nexus(self, row: Row) -> Played:
        """Play a row by nexus, with its settings imported and its project trusted."""
        if row.exports:
            return self._play(row, partial(_nexus, row), [self._resume_exported(row)])
        if row.then:
            return self._play(row, self._begin_peer(row), [*self._continue_peer(row)[:-1], partial(_nexus_resume, row)])
        return self._play(row, self._from_editor(row, partial(_nexus, row)))

    def _from_editor(self, row: Row, agent: Prepare) -> Prepare:
        """Return how the client starts the agent, if the row has one."""
        if not row.editor:
            return agent
        client = self.find(EDITOR)

        def prepare(server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
            line, env = agent(server, home, tree)
            return [client, "--format", "json", *row.editor, "--agent", shlex.join(line), "exec", row.prompt], env

        return prepare

    def _begin_peer(self, row: Row) -> Prepare:
        words = {"claude": _claude, "codex": _codex, "pi": _pi, "opencode": _opencode}[row.peer]
        return self._from_editor(row, partial(words, self.find(row.peer), row))

    def _continue_peer(self, row: Row) -> list[Prepare]:
        program = self.find(row.peer)
        words = {"claude": _claude_resume, "codex": _codex_resume}
        return [partial(words[row.peer], program, row, message) for message in row.then]

    def _resume_exported(self, row: Row) -> Prepare:
        program = self.find("claude")

        def prepare(server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
            session = _export(home, tree, _nexus_environment(server, home))
            line, env = _claude(program, replace(row, prompt=row.then[-1]), server, home, tree)
            return [*line, "--resume", session], env

        return prepare

    def _play(self, row: Row, prepare: Prepare, further: Sequence[Prepare] = ()) -> Played:
        tree, home = self.root / "tree", self.root / "home"
        for folder in (tree, home):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        for folder, files in ((tree, row.tree), (home, row.home)):
            for name, text in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                data = text if isinstance(text, bytes) else text.replace("TREE", str(tree)).encode()
                (folder / name).write_bytes(data)
                (folder / name).chmod(0o755 if data.startswith(b"#!") else 0o644)
        subprocess.run(["git", "init", "-q", str(tree)], check=True)
        with ScriptedServer(row.script(tree)) as server:
            for each in (prepare, *further):
                line, env = each(server, home, tree)
                done = _run(line, home, tree / row.start, env)
        requests = [one.raw.decode() for one in server.requests if one.offered]
        return Played(tree, home, requests, done.returncode, done.stdout)


def _run(line: list[str], home: Path, tree: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program. Raises `NotRun` if it takes too long."""
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", **env}
    try:
        return subprocess.run(
            line, cwd=tree, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise NotRun(f"{Path(line[0]).name} took more than {SECONDS} s") from error


def _claude(program: str, row: Row, server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
    env = {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "sk-ant-nobody",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    for words in (["marketplace", "add", str(home / "market")], ["install", row.plugin]) if row.plugin else ():
        _run_before([program, "plugin", *words], home, tree, env)
    mode = ["--permission-mode", row.mode] if row.mode else []
    return [program, "-p", row.prompt, "--model", "claude-sonnet-4-5", *mode], env


def _claude_resume(
    program: str, row: Row, message: str, server: ScriptedServer, home: Path, tree: Path
) -> tuple[list[str], dict[str, str]]:
    line, env = _claude(program, replace(row, prompt=message), server, home, tree)
    return [*line, "--continue"], env


def _codex_resume(
    program: str, row: Row, message: str, server: ScriptedServer, home: Path, tree: Path
) -> tuple[list[str], dict[str, str]]:
    line, env = _codex(program, row, server, home, tree)
    return [*line[:-1], "resume", "--last", message], env


def _codex(program: str, row: Row, server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
    own = row.home.get(".codex/config.toml", "")
    return codex_command(program, row.prompt, server, home, tree, own), {"KEY": "sk-nobody"}


def _pi(program: str, row: Row, server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
    return pi_command(program, row.prompt, server, home), {}


def pi_command(program: str, prompt: str, server: ScriptedServer, home: Path) -> list[str]:
    """Return the command line of a run of pi, which asks `server`."""
    provider = {"baseUrl": server.base("chat"), "api": "openai-completions", "apiKey": "none"}
    settings = home / ".pi/agent/models.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"providers": {"scripted": {**provider, "models": [{"id": "scripted"}]}}}))
    return [program, "--provider", "scripted", "--model", "scripted", "-p", prompt]


def _opencode(
    program: str, row: Row, server: ScriptedServer, home: Path, tree: Path
) -> tuple[list[str], dict[str, str]]:
    line = opencode_command(program, row.prompt, server, home)
    return [program, "acp"] if row.editor else line, OPENCODE_OFFLINE


def opencode_command(program: str, prompt: str, server: ScriptedServer, home: Path) -> list[str]:
    """Return the command line of a run of opencode, which asks `server`."""
    settings = home / ".config/opencode/opencode.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    provider = {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": server.base("chat"), "apiKey": "none"}}
    models = {"model": "scripted/scripted", "provider": {"scripted": {**provider, "models": {"scripted": {}}}}}
    settings.write_text(json.dumps(models))
    return [program, "run", "--model", "scripted/scripted", prompt]


def codex_command(
    program: str, prompt: str, server: ScriptedServer, home: Path, tree: Path, own: str = ""
) -> list[str]:
    """Return the command line of a run of codex in `tree`, which asks `server` with the key in `KEY`; `own` are the
    settings of the person."""
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex/config.toml").write_text(
        f'model = "gpt-5"\nmodel_provider = "scripted"\n{own}[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{server.url}/v1"\nwire_api = "responses"\nenv_key = "KEY"\n'
        f'[projects."{tree}"]\ntrust_level = "trusted"\n'
    )
    options = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
    return [program, "exec", *options, prompt]


def _nexus_environment(server: ScriptedServer, home: Path) -> dict[str, str]:
    return {
        "NEXUS_HOME": str(home / "nexus"),
        "ANTHROPIC_API_BASE": server.url,
        "ANTHROPIC_API_KEY": "sk-ant-nobody",
    }


def _nexus(row: Row, server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
    env = _nexus_environment(server, home)
    keeps = {"claude": ".claude/settings.json", "codex": ".codex/config.toml"}
    imports = [["import", program, "--yes"] for program, file in keeps.items() if file in row.home]
    before = [["trust", row.trusts], *imports]
    if row.plugin:
        before.append(["plugin", "add", "--all", f"{home / 'market'}:{row.plugin.partition('@')[0]}"])
    if row.listed:
        before.append(["mcp", "test", row.listed])
    for words in before:
        _run_before([NEXUS, *words], home, tree, env)
    env["NEXUS_MODEL"] = MODEL  # an option would come before the model of a guide
    options = ["--allow", row.level] if row.level else []
    return [NEXUS, "acp", *options] if row.editor else [NEXUS, "ask", *options, "--", row.prompt], env


def _nexus_resume(row: Row, server: ScriptedServer, home: Path, tree: Path) -> tuple[list[str], dict[str, str]]:
    env = _nexus_environment(server, home)
    _run_before([NEXUS, "import", row.peer, "--sessions", "--yes"], home, tree, env)
    return [NEXUS, "ask", "-c", "-m", MODEL, "--allow", row.level, "--", row.then[-1]], env


def _export(home: Path, tree: Path, env: dict[str, str]) -> str:
    """Put the newest session of nexus where Claude Code looks for its own; return its id."""
    file = home / "session.jsonl"
    _run_before([NEXUS, "export", "--format", "claude", "-o", str(file)], home, tree, env)
    session = str(json.loads(file.read_text().partition("\n")[0])["sessionId"])
    folder = home / ".claude/projects" / re.sub(r"[^A-Za-z0-9]", "-", str(tree))
    folder.mkdir(parents=True)
    file.rename(folder / f"{session}.jsonl")
    return session


def _run_before(line: list[str], home: Path, tree: Path, env: dict[str, str]) -> None:
    """Run a program before a row. Raises `NotRun` if it fails."""
    done = _run(line, home, tree, env)
    if done.returncode:
        raise NotRun(f"{Path(line[0]).name} {line[1]}: {done.stderr.strip()}")
