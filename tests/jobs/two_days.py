"""Run an agent in a folder, and resume its session the next day: python two_days.py FOLDER PROMPT [SESSION]."""

import asyncio
import sys

from nexus_cli.client import Client


async def watch(client: Client, prompt: str) -> str:
    """Send a prompt, print what the agent does, answer its questions; return its answer."""
    async for event in client.stream("helper", prompt):
        if event["type"] == "tool.call":
            print("calls", event["call"]["name"], event["subject"])
        elif event["type"] == "approval.ask":
            is_edit = event["question"]["kind"] == "edit"
            print("asks", event["question"]["what"], "-> once" if is_edit else "-> no")
            words = None if is_edit else "Only edit files; I run the tests."
            await client.approve("helper", event["id"], "once" if is_edit else "no", words)
        elif event["type"] == "step.end":
            print("step", event["step"], event["usage"]["cost_usd"])
        elif event["type"] == "result":
            return event["text"] if event["ok"] else f"failed: {event['error']}"
    return ""


async def main(folder: str, prompt: str, session: str | None = None) -> None:
    """Run one prompt, in a new session or in SESSION."""
    async with Client.start("--allow", "ask", cwd=folder) as client:
        if session == "yesterday":
            session = (await client.list_sessions(folder))["sessions"][0]["id"]
        agent = await client.create_agent("helper", session=session, limits={"max_steps": 20, "max_cost": 0.5})
        print("level", agent["level"], "limits", agent["limits"])
        print(await watch(client, prompt))
        print("messages", (await client.get_messages("helper"))["total"])


asyncio.run(main(*sys.argv[1:]))
