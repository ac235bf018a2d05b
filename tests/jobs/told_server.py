"""A server of the Model Context Protocol without the SDK, which offers what a file says: `told_server.py FILE`.

The file has `tools`, `prompts`, `resources`, `templates`, as they go on the wire, the `instructions`, and `announces`:
when the server says that its tools changed. A prompt is its name and an image.

| announces | when |
|---|---|
| `before`, `after` | before or after the result of each call, the latter in the same breath |
| `dies` | never: it ends after the result of a call |
| `idle` | when the file has changed; then FILE.announced is there |
| `always` | again and again |

After the first call the tools are those of `later`, if that is there; null is an error instead of the list. With
`flips` every second list is `later`. A line of FILE.calls is written for each call and each list.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])
CALLS = FILE.with_suffix(".calls")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


CHANGED = {"method": "notifications/tools/list_changed"}


def send(*messages: dict[str, Any]) -> None:
    lines = [json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages]
    os.write(1, "".join(lines).encode())


def note(line: str) -> None:
    with CALLS.open("a") as calls:
        calls.write(f"{line}\n")


def announce() -> None:
    """Say that the tools changed, where no call is the reason."""
    seen = FILE.read_text()
    while True:
        time.sleep(0.01)
        text = FILE.read_text()
        told = json.loads(text or "{}")
        if told.get("announces") == "always":
            send(CHANGED)
        if told.get("announces") == "idle" and text != seen:
            send(CHANGED)
            FILE.with_suffix(".announced").touch()
        seen = text


def read(uri: str) -> dict[str, Any]:
    if uri.endswith(".png"):
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]}
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"the text of {uri}\n" * 3}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    told = json.loads(FILE.read_text())
    if method == "initialize":
        offers = {"tools": {"listChanged": True}} | {name: {} for name in ("prompts", "resources") if name in told}
        info = {"name": "told", "version": "1"}
        said = {"instructions": told.get("instructions", "")}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": info} | said
    if method == "tools/list":
        done = CALLS.read_text() if CALLS.exists() else ""
        is_later = done.count(method) % 2 if told.get("flips") else "tools/call" in done
        note(method)
        tools = told["later"] if is_later and "later" in told else told["tools"]
        return None if tools is None else {"tools": tools}
    if method == "prompts/list":
        return {"prompts": told["prompts"]}
    if method == "prompts/get":
        parts = {"type": "text", "text": params["name"]}, {"type": "image", "mimeType": "image/png", "data": PNG}
        return {"messages": [{"role": "user", "content": part} for part in parts]}
    if method == "resources/list":
        return {"resources": told["resources"]}
    if method == "resources/templates/list":
        return {"resourceTemplates": told.get("templates", [])}
    if method == "resources/read":
        return read(params["uri"])
    if method == "tools/call":
        note(f"{method} {params['name']} {json.dumps(params['arguments'])}")
        if told.get("announces") == "before":
            send(CHANGED)
        return {"content": [{"type": "text", "text": "done"}]}
    return None


threading.Thread(target=announce, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    found = answer(request["method"], request.get("params", {}))
    if found is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    when = json.loads(FILE.read_text()).get("announces") if request["method"] == "tools/call" else ""
    send({"id": request["id"], "result": found}, *([CHANGED] if when == "after" else []))
    if when == "dies":
        os._exit(7)
