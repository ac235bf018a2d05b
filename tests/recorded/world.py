"""A home and a project with something of everything: what the recorded outputs of the commands are taken from."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import SHOP, SUMMARY, call, calls, rule

SETTINGS = """[models."openai/small"]
window = 16000
max_output = 1000
input_price = 1.0
output_price = 4.0

[models."openai/spare"]
window = 32000
max_output = 2000
input_price = 1.0
output_price = 4.0

[alias]
fast = "openai/small"

[[hook]]
event = "PreToolUse"
matcher = "Edit|Write"
command = "true"
timeout = 600

[rules]
allow = ["bash(make *)"]
ask = ["bash(git commit *)"]
deny = ["bash(git push *)"]
"""
"""Of the person; the other model and its price stand in those that everybody has."""
SPACE = "Shop"
PROJECT = """[limits]
max_steps = 50

[[hook]]
event = "PreToolUse"
matcher = "Fetch"
command = "echo open"
timeout = 600
"""
SKILL = "---\nname: release\ndescription: How to release.\n---\nRun make.\n"
PLUGIN = {
    ".claude-plugin/plugin.json": '{"name": "tidy", "version": "0.1.0", "description": "Keeps a shop tidy"}\n',
    "commands/sweep.md": "---\ndescription: Sweep the shop\n---\nSweep $ARGUMENTS.\n",
    "skills/shelves/SKILL.md": "---\nname: shelves\ndescription: How shelves are filled\n---\nTop to bottom.\n",
    "hooks/hooks.json": (
        '{"hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [{"type": "command", "command": "true"}]}]}}\n'
    ),
}
CODEX = """model = "gpt-5"
approval_policy = "never"

[mcp_servers.shelf]
command = "shelf"
args = ["--all"]
"""
"""Settings of another program."""
SERVER = """import json
import sys

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "notes", "version": "1"}
    elif asked["method"] == "tools/list":
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        result = {"tools": [{"name": "read_note", "description": "Read a note.", "inputSchema": schema}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
"""A server of the Model Context Protocol with one tool."""


def make_world(p: Person) -> None:
    """Live in the world until it has something of everything."""
    _put_files(p)
    _talk(p)
    _look_after_facts(p)
    _work_alone(p)
    _work_beside(p)


def _put_files(p: Person) -> None:
    p.settings(SETTINGS)
    p.file("shop.py", SHOP)
    p.file("NEXUS.md", "Be brief.\n")
    p.file("../nexus/config/NEXUS.md", "I sell tea.\n")
    p.file(
        "../nexus/config/skills/release/SKILL.md", "---\nname: release\ndescription: How to release.\n---\nRun make.\n"
    )
    p.file("../nexus/config/commands/price.md", "---\ndescription: Ask for a price\n---\nWhat does $ARGUMENTS cost?\n")
    for name, text in PLUGIN.items():
        p.file(f"../tidy/{name}", text)
    p.file("../server.py", SERVER)
    p.file("../.codex/config.toml", CODEX)
    p.file("../.codex/AGENTS.md", "Sell no coffee.\n")
    p.repository()


def _talk(p: Person) -> None:
    """Sessions: edits, refusals, a drop, a worker, an undo, a summary, a fork."""
    edit = call("edit_file", path="shop.py", edits=[{"old": "4", "new": "5"}])
    p.model(call("read_file", path="shop.py"), edit, call("bash", command="git push origin"), "Tea costs 5.")
    p.nexus("ask", "--allow", "edit", "make tea cost 5")
    p.date("shop.py")
    first = p.newest_session()
    p.nexus("sessions", "rename", first, "prices")
    p.model(calls(("bash", {"command": "seq 1 9000 | fmt"}), ("bash", {"command": "false"})), "They are many.")
    p.nexus("ask", "-c", "--allow", "all", "count")
    p.model(call("agent", task="look around"), call("glob", pattern="*.py"), "There is shop.py.", "One file.")
    p.nexus("ask", "-c", "look around")
    p.model(call("write_file", path="coffee.txt", content="coffee\n"), "We sell coffee.")
    p.nexus("ask", "-c", "--allow", "edit", "sell coffee")
    p.nexus("undo")
    p.model("We do not.", rules=(rule(SUMMARY, contains="summar"),))
    p.nexus("ask", "-c", "do we sell coffee?")
    p.nexus("sessions", "fork", first, "--name", "other")
    p.model("I am.", rules=(rule(SUMMARY, contains="summar"),))
    p.nexus("ask", "-r", "other", "sure?")
    with p.serving() as ask:
        ask("create_agent", agent_id="a", session="prices")
        ask("compact", agent_id="a")
    p.model(call("read_file", path="shop.py"), "Tea costs 5.")
    p.nexus("ask", "-r", "prices", "what does tea cost?")


def _look_after_facts(p: Person) -> None:
    p.nexus("memory", "add", "tests run with make")
    p.nexus("memory", "add", "--slot", "agent", "Husam likes short answers")
    fact = {"slot": "project", "text": "the shop opens at nine"}
    p.model(call("use_tool", name="remember", arguments=fact), "I noted it.")
    p.nexus("ask", "when do we open?")


def _work_alone(p: Person) -> None:
    """Scheduled work and runs in their states, and a space."""
    p.nexus("schedule", "add", "look after the build", "--cron", "0 10 * * *", "--zone", "UTC", "--name", "Daily")
    p.nexus("schedule", "add", "count the tea", "--in", "2h", "--name", "Count", "--max-steps", "5")
    p.nexus("schedule", "add", "sweep", "--cron", "@weekly", "--zone", "UTC", "--name", "Weekly")
    p.nexus("schedule", "pause", "Weekly")
    p.model(call("glob", pattern="*"), call("bash", command="git push"), "All is well.")
    p.nexus("schedule", "run", "Daily")
    p.model({"fault": {"status": 400, "message": "strange parameter"}})
    p.nexus("schedule", "run", "Count", exits=None)
    p.model(default=call("wait_for", file="ci.log"))
    p.nexus("ask", "tell me how CI ends", exits=3)
    p.nexus("ask", "wait for it", exits=3)
    p.nexus("runs", "cancel", "run-4")
    p.nexus("space", "create", SPACE, "--member", "Sarah", "--agent", "Ana")
    p.model("Tea and nothing else.")
    p.nexus("space", "post", SPACE, "@Ana what do we sell?")
    p.nexus("space", "post", SPACE, "--as", "Sarah", "I would like some tea.")
    p.nexus("serve", "--once", exits=None)
    p.nexus("space", "goal", "Ana", "add", "sell more tea")


def _work_beside(p: Person) -> None:
    """A worktree, a plugin, a server, trust."""
    # Tokens and a model of its own, since counts of a model learn from its requests: the worktree's path has a digest.
    used = {"input": 2800, "output": 20}
    p.model(
        call("write_file", path="new.txt", content="x\n") | {"usage": used}, {"text": "It is there.", "usage": used}
    )
    p.nexus("ask", "-w", "beside", "--allow", "edit", "-m", "openai/spare", "write new.txt")
    p.nexus("plugin", "add", str(p.home / "tidy"), "--all")
    p.nexus("mcp", "add", "notes", "python3", str(p.home / "server.py"))
    p.file(".nexus/config.toml", PROJECT)
    p.nexus("trust", ".")
    p.file(".nexus/commands/brew.md", "---\ndescription: Brew tea\n---\nBrew $ARGUMENTS.\n")
    p.model(default="Tea costs 5.")
