"""Plugin folders as they are published, made by hand: the layouts of Claude's `hookify` and `commit-commands`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from project_files import write_files

HELP = '---\ndescription: Get help with hookify\nallowed-tools: ["Read"]\n---\n\n# Hookify Help\n\nExplain the rules.\n'
LIST = "---\ndescription: List the rules\n---\n# Rules\nThey are: !`sh ${CLAUDE_PLUGIN_ROOT}/scripts/list.sh`\n"
SKILL = "---\nname: writing-rules\ndescription: How to write a rule\nversion: 0.1.0\n---\n# Writing rules\nBe brief.\n"
GUARD = """import json, os, sys
sys.path.insert(0, os.environ["CLAUDE_PLUGIN_ROOT"])
from core.rules import FORBIDDEN
given = json.load(sys.stdin)
if FORBIDDEN in given["tool_input"].get("command", ""):
    print("A rule forbids it.", file=sys.stderr)
    sys.exit(2)
"""
HOOKS = {
    "description": "Hookify plugin - user-configurable hooks",
    "hooks": {
        "PreToolUse": [
            {
                "matcher": "Bash",
                "hooks": [
                    {
                        "type": "command",
                        "command": f'"{sys.executable}" ${{CLAUDE_PLUGIN_ROOT}}/hooks/pretooluse.py',
                        "timeout": 60,
                    }
                ],
            }
        ]
    },
}
MANIFEST = {
    "name": "hookify",
    "version": "0.1.0",
    "description": "Easily create hooks to prevent unwanted behaviors",
    "author": {"name": "Somebody", "email": "nobody@example.com"},
}


def make_hookify(root: Path, **servers: object) -> Path:
    """Write the plugin `hookify` with commands, a skill, a hook, and the MCP `servers`; return `root`."""
    files = {
        ".claude-plugin/plugin.json": json.dumps(MANIFEST),
        "README.md": "# Hookify\n",
        "agents/conversation-analyzer.md": "---\nname: conversation-analyzer\n---\n",
        "commands/help.md": HELP,
        "commands/list.md": LIST,
        "core/__init__.py": "",
        "core/rules.py": 'FORBIDDEN = "rm -rf"\n',
        "hooks/hooks.json": json.dumps(HOOKS),
        "hooks/pretooluse.py": GUARD,
        "scripts/list.sh": "echo no rm\n",
        "skills/writing-rules/SKILL.md": SKILL,
        "skills/writing-rules/examples/one.md": "An example.\n",
    }
    if servers:
        files[".mcp.json"] = json.dumps(servers)
    return write_files(root, files)
