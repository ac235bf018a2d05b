"""A small MCP server without the SDK, for what a right one would never put on the wire: `raw_server.py MODE [FILE]`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
FILE = Path(sys.argv[2]) if len(sys.argv) > 2 else None
LOOP: dict[str, Any] = {
    "type": "object",
    "$ref": "#/$defs/a",
    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
}


def note(text: str) -> None:
    if FILE is not None:
        with FILE.open("a") as file:
            file.write(text + "\n")


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    if MODE == "modern":
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}
    send({"id": request["id"], "result": result})


def text(request: dict[str, Any], said: str) -> None:
    answer(request, {"content": [{"type": "text", "text": said}]})


def begin(request: dict[str, Any]) -> None:
    if MODE == "dies_before":
        sys.exit("no database\nat port 5432")
    if MODE == "silent":
        time.sleep(600)
    if MODE == "modern":
        send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        return
    if MODE == "stdout_log":
        write(b'Listening on everything\n{"level": "info"}\n[1, 2]\n\n')
    version = "1999-01-01" if MODE == "old" else request["params"]["protocolVersion"]
    info = {"name": "raw", "version": "1"}
    offers: dict[str, Any] = {"tools": {}} | ({"prompts": {}, "resources": {}} if MODE == "boaster" else {})
    answer(request, {"protocolVersion": version, "capabilities": offers, "serverInfo": info})


def list_tools(request: dict[str, Any]) -> None:
    if MODE == "pages":
        entry = {"name": f"t{request['id']}", "description": "é" * 4_000_000, "inputSchema": {"type": "object"}}
        data = json.dumps({"tools": [entry], "nextCursor": "again"}, ensure_ascii=False)
        write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {data}}}\n'.encode())
        return
    if MODE == "endless":
        entry = {"name": f"t{request['id']}", "inputSchema": {"type": "object"}}
        answer(request, {"tools": [entry], "nextCursor": "again"})
        return
    schema = LOOP if MODE == "loop" else {"type": "object", "properties": {"text": {"type": "string"}}}
    tool: dict[str, Any] = {"name": "read_file", "description": "Echo", "inputSchema": schema}
    tool["annotations"] = {"readOnlyHint": True, "title": "Echo"}
    if MODE in ("loop", "liar"):
        tool["outputSchema"] = LOOP if MODE == "loop" else {"type": "object", "required": ["a"]}
    bad = [{"name": "a"}, {"name": "b", "inputSchema": {}}]
    answer(request, {"tools": bad if MODE == "bad_tools" else [tool]})


def call(request: dict[str, Any]) -> None:
    params = request["params"]
    note("call")
    if MODE == "dies_in_call":
        print("out of memory", file=sys.stderr)
        os._exit(7)
    elif MODE == "closes":
        os.close(1)
        time.sleep(600)
    elif MODE == "dies_once" and FILE is not None and FILE.read_text().count("list") < 2:
        os._exit(7)
    elif MODE == "huge":
        write(b'{"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "')
        for _ in range(60):
            write(b"a" * 1_000_000)
        write(b'"}]}}\n')
    elif MODE == "utf8":
        write(b"\xff\xfe not text\n")
        data = json.dumps(
            {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": "@"}]}}
        )
        write(data.encode().replace(b"@", b"caf\xe9") + b"\n")
    elif MODE == "wrong_ids":
        for number in ("a", 99, None, -1, [1]):
            send({"id": number, "result": {"content": []}})
        if params["arguments"].get("answer"):
            text(request, "right")
    elif MODE == "storm":
        while True:
            send({"method": "notifications/tools/list_changed"})
    elif MODE == "progress":
        for step in range(5):
            time.sleep(0.3)
            token = params["_meta"]["progressToken"]
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 5}})
        text(request, "done")
    elif MODE == "env":
        text(request, json.dumps({**dict(os.environ), "cwd": str(Path.cwd())}))
    elif MODE in ("child", "stubborn"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
        text(request, f"{os.getpid()} {child.pid}")
    elif MODE == "liar":
        answer(request, {"content": [], "structuredContent": {"b": 1}})
    elif MODE == "beside":
        words = [{"type": "text", "text": params["arguments"]["text"]}]
        answer(request, {"content": words, "structuredContent": {"rows": [{"name": "ü\n", "n": 3, "gone": None}]}})
    elif MODE == "own_error":
        send({"id": request["id"], "error": {"code": -32000, "message": "no such note"}})
    elif MODE == "no_result":
        send({"id": request["id"], "result": {"content": "text"}})
    elif MODE == "hang":
        if params["arguments"].get("answer"):
            text(request, "well")
    elif MODE == "ask":
        schema = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "default": 3}}}
        asked = {"mode": "form", "message": "Who?", "requestedSchema": schema}
        send({"id": "q", "method": "elicitation/create", "params": asked})
        text(request, json.dumps(json.loads(sys.stdin.readline())["result"]))
    elif MODE == "nags":
        said = []
        for number in range(1000):
            asked = {
                "mode": "form",
                "message": "Who? " * 10_000,
                "requestedSchema": {"type": "object", "properties": {}},
            }
            send({"id": f"q{number}", "method": "elicitation/create", "params": asked})
            said.append(json.loads(sys.stdin.readline())["result"]["action"])
        text(request, " ".join(said))
    elif MODE == "sampling":
        for number, method in enumerate(("sampling/createMessage", "roots/list")):
            wanted = {"messages": [], "maxTokens": 1} if number == 0 else {}
            send({"id": method, "method": method, "params": wanted})
        text(request, " ".join(sorted(str("error" in json.loads(sys.stdin.readline())) for _ in range(2))))
    else:
        text(request, params.get("arguments", {}).get("text", "fine"))


def serve() -> None:
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method")
        if method == "initialize":
            note("begin")
            begin(request)
        elif method == "server/discover" and MODE == "modern":
            note("discover")
            version = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            answer(request, {**version, "serverInfo": {"name": "raw", "version": "1"}})
        elif method == "notifications/initialized" and MODE == "dies_after":
            sys.exit(3)
        elif method == "notifications/cancelled":
            note("cancelled")
        elif method == "tools/list":
            note("list")
            if MODE == "dies_once" and FILE is not None and FILE.read_text().count("list") == 1:
                os._exit(7)
            list_tools(request)
        elif method == "tools/call":
            call(request)
        elif "id" in request:
            send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    while MODE == "stubborn":
        time.sleep(1)


serve()
