"""The home folder of a person who used Claude Code: settings, instructions, servers, and three sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = "ghp_" + "A1b2C3d4" * 5
SETTINGS = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "model": "claude-sonnet-4-5-20250929",
    "env": {"ANTHROPIC_API_KEY": "sk-ant-" + "api03-abc123" * 3, "NODE_ENV": "test"},
    "permissions": {
        "allow": [
            "Bash(npm test:*)",
            "Bash(git * main)",
            "Edit(src/**)",
            "WebFetch(domain:docs.python.org)",
            "mcp__github",
        ],
        "ask": ["Bash(git push:*)", "NotebookEdit"],
        "deny": ["Read(./.env)", "Bash(curl:*)", "Bash(rm -rf *.log /tmp)", "Read(//etc/passwd)", "Read([a-z].pem)"],
        "defaultMode": "acceptEdits",
    },
    "hooks": {"PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "prettier"}]}]},
    "cleanupPeriodDays": 365,
    "statusLine": {"type": "command", "command": "status.sh"},
    "enabledPlugins": {"commit-commands@claude-code-plugins": True, "old@x": False},
}
SERVERS = {
    "mcpServers": {
        "github": {
            "type": "http",
            "url": "https://api.example.com/mcp/",
            "headers": {"Authorization": f"Bearer {KEY}"},
        },
        "files": {"type": "stdio", "command": "npx", "args": ["-y", "server-files", "."], "env": {"GITHUB_TOKEN": KEY}},
    },
    "projects": {"/srv/shop": {"mcpServers": {"db": {"command": "db"}}, "allowedTools": []}},
}
INSTRUCTIONS = "# How I work\n\nAnswer in short sentences.\n"


class Session:
    """Builds a session file record by record, as Claude Code 2 writes it."""

    def __init__(self, name: str, cwd: str, day: int = 1) -> None:
        self.name, self.cwd, self.day = name, cwd, day
        self.records: list[dict[str, Any]] = []

    def add(self, kind: str, message: Mapping[str, Any], **more: Any) -> Session:
        """Add a record behind the last one."""
        number = len(self.records)
        parent = self.records[-1]["uuid"] if self.records else None
        self.records.append(
            {
                "parentUuid": parent,
                "isSidechain": False,
                "userType": "external",
                "cwd": self.cwd,
                "sessionId": self.name,
                "version": "2.0.14",
                "gitBranch": "main",
                "type": kind,
                "message": dict(message),
                "uuid": f"{self.name}-{number}",
                "timestamp": f"2025-10-{self.day:02d}T10:{number // 60:02d}:{number % 60:02d}.000Z",
                **more,
            }
        )
        return self

    def user(self, text: str, **more: Any) -> Session:
        """Add a message of the person."""
        return self.add("user", {"role": "user", "content": text}, **more)

    def reply(self, text: str = "", *calls: Sequence[Any], **more: Any) -> Session:
        """Add a reply with calls: id, name, input."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [{"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]} for call in calls]
        usage = {
            "input_tokens": 10,
            "cache_read_input_tokens": 500,
            "cache_creation_input_tokens": 40,
            "output_tokens": 7,
        }
        message = {
            "id": f"msg_{self.name}_{len(self.records)}",
            "model": "claude-sonnet-4-5-20250929",
            "role": "assistant",
        }
        return self.add("assistant", {**message, "content": blocks, "usage": usage, **more})

    def result(self, call: str, text: str) -> Session:
        """Add the result of a call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text}
        return self.add("user", {"role": "user", "content": [block]}, toolUseResult=text)

    def write(self, home: Path) -> Path:
        """Write the file below Claude's folder and return its path."""
        path = home / "projects" / self.cwd.replace("/", "-") / f"{self.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in self.records), encoding="utf-8")
        return path


def make_sessions(cwd: str) -> list[Session]:
    """Three sessions of a project: a plain one, one of two turns, one cut in the middle of a call."""
    plain = Session("11111111-aaaa", cwd, 1).user("What is in the pantry?").reply("Flour and honey.")
    two = (
        Session("22222222-bbbb", cwd, 2)
        .user("Fix the discount")
        .reply("I look.", ("toolu_1", "Bash", {"command": "ls"}))
    )
    two.result("toolu_1", "shop.py").reply("Found it.").user("And the test?").reply("Done, the walrus test passes.")
    cut = (
        Session("33333333-cccc", cwd, 3)
        .user("Deploy the harbour")
        .reply(
            "I run it.", ("toolu_9", "Bash", {"command": "make deploy"}), ("toolu_10", "Read", {"file_path": "a.py"})
        )
    )
    return [plain, two, cut.result("toolu_10", "print(1)")]


def make_home(home: Path, cwd: str) -> Path:
    """Write the whole home and return Claude's folder."""
    folder = home / ".claude"
    (folder / "skills" / "teach").mkdir(parents=True)
    (folder / "skills" / "teach" / "SKILL.md").write_text("---\ndescription: Teach\n---\nTeach.\n")
    (folder / "settings.json").write_text(json.dumps(SETTINGS, indent=2))
    (folder / "CLAUDE.md").write_text(INSTRUCTIONS)
    (home / ".claude.json").write_text(json.dumps(SERVERS))
    for session in make_sessions(cwd):
        session.write(folder)
    return folder
