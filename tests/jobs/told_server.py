"""A server of the Model Context Protocol without the SDK, which offers what a file says: `told_server.py FILE`.

The file has `tools`, `resources`, `templates`, as they go on the wire, and `announces`: whether each call is preceded
by the news that the tools changed. A line of FILE.calls is written for each call.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1])
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read(uri: str) -> dict[str, Any]:
    if uri.endswith(".png"):
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]}
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"the text of {uri}\n" * 3}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    told = json.loads(FILE.read_text())
    if method == "initialize":
        offers = {"tools": {"listChanged": True}} | ({"resources": {}} if "resources" in told else {})
        info = {"name": "told", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": info}
    if method == "tools/list":
        return {"tools": told["tools"]}
    if method == "resources/list":
        return {"resources": told["resources"]}
    if method == "resources/templates/list":
        return {"resourceTemplates": told.get("templates", [])}
    if method == "resources/read":
        return read(params["uri"])
    if method == "tools/call":
        with FILE.with_suffix(".calls").open("a") as calls:
            calls.write(f"{params['name']} {json.dumps(params['arguments'])}\n")
        if told.get("announces"):
            send({"method": "notifications/tools/list_changed"})
        return {"content": [{"type": "text", "text": "done"}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    found = answer(request["method"], request.get("params", {}))
    if found is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        send({"id": request["id"], "result": found})
