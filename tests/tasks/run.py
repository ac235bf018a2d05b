"""Lets a real model do the tasks: `python tests/tasks/run.py --model NAME [--resume] [--max-cost USD] [TASK...]`.

It works with your own settings and keys, each task in a temporary folder, at the level `auto`. A line for each task
goes to `--results FILE`; `--resume` skips what stands in it, and does again what was stopped by Ctrl+C, by the dollars
or by a provider that cannot be reached. The table at the end has solved tasks, requests, tokens, the share read from
the cache, and dollars.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from tasks.task import Task, load, names

from nexus_cli.tools.registry import discover_tools

Row = dict[str, Any]
Ask = Callable[[Path, Sequence[str]], tuple[int, str]]
"""Runs nexus with arguments in a folder; returns its exit status and stdout."""
NOT_THE_MODEL = ("aborted", "auth", "config", "network", "overloaded", "rate_limit", "usage")
"""Kinds of errors that say nothing about the model: they end a run, and --resume does the task again."""
NO_DOLLARS = "the dollars are spent"
ROW = "{:<24} {:<7} {:>5} {:>9} {:>7} {:>7} {:>9}  {}"


def run_nexus(folder: Path, arguments: Sequence[str]) -> tuple[int, str]:
    """Run this checkout's program in a folder."""
    command = [sys.executable, "-m", "nexus_cli", *arguments]
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, stdin=null, stdout=pipe, stderr=null, text=True) as process:
        try:
            told = process.communicate()[0]
        except KeyboardInterrupt:  # nexus has got it too, and its result has the dollars
            told = process.communicate()[0]
    return process.returncode, told


def play(task: Task, model: str, left: float | None, ask: Ask) -> Row:
    """Let the model do a task, in at most `left` dollars; return its row."""
    row: Row = {"task": task.name, "model": model, "steps": 0, "input": 0, "output": 0, "cached": 0, "cost": 0.0}
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "project"
        folder.mkdir()
        task.prepare(folder)
        result: dict[str, Any] = {}
        stopped = ""
        for turn in task.turns:
            again = [] if turn.is_new else ["-c"]
            rest = None if left is None else left - row["cost"]
            if rest is not None and rest <= 0:
                stopped = NO_DOLLARS
                break
            limit = [] if rest is None else ["--max-cost", f"{max(rest, 0.000001):.6f}"]
            status, text = ask(folder, ["ask", "-m", model, "--allow", "auto", "--json", *again, *limit, turn.prompt])
            try:
                result = json.loads(text)
            except ValueError:
                _add_cost(row, None, rest)
                return {**row, "solved": False, "stopped": "", "why": f"exit status {status}, no result"}
            _add(row, result)
            _add_cost(row, result["usage"]["cost_usd"], rest)
            if status:
                break
        error = result["error"] or {"kind": "", "message": ""}
        fault = error["message"] or stopped or task.find_fault(folder, result["text"])
    if error["kind"] in NOT_THE_MODEL:
        stopped = error["message"]
    elif left is not None and error["kind"] == "limit" and "max_cost" in error["message"]:
        stopped = NO_DOLLARS
    return {**row, "solved": not fault, "stopped": stopped, "why": " ".join(fault.split())[:60]}


def _add(row: Row, result: dict[str, Any]) -> None:
    usage = result["usage"]
    row["steps"] += result["steps"]
    for key, name in (("input", "input"), ("output", "output"), ("cached", "cache_read")):
        row[key] += usage[name]


def _add_cost(row: Row, cost: float | None, most: float | None) -> None:
    """Add the dollars of a turn. An unknown cost counts as the `most` that it was allowed; without that all is
    unknown."""
    cost = most if cost is None else cost
    row["cost"] = None if cost is None or row["cost"] is None else row["cost"] + cost


def format_table(rows: Sequence[Row]) -> str:
    """Return the table of rows, with a line for all of them."""
    lines = [ROW.format("task", "solved", "steps", "input", "output", "cached", "dollars", "why not")]
    costs = [row["cost"] for row in rows]
    total = {key: sum(row[key] for row in rows) for key in ("steps", "input", "output", "cached")}
    solved = f"{sum(row['solved'] for row in rows)}/{len({row['task'] for row in rows})}"
    last = {**total, "task": "all", "cost": None if None in costs else sum(costs), "why": ""}
    for row in (*rows, last):
        said = solved if row is last else "yes" if row["solved"] else "no"
        share = f"{row['cached'] / row['input']:.0%}" if row["input"] else "-"
        dollars = "unknown" if row["cost"] is None else f"{row['cost']:.4f}"
        lines.append(
            ROW.format(
                row["task"], said, row["steps"], row["input"], row["output"], share, dollars, row["why"]
            ).rstrip()
        )
    return "\n".join(lines)


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Let a real model do the tasks.")
    parser.add_argument("--model", required=True, help="a litellm model name, or an alias")
    parser.add_argument("--resume", action="store_true", help="skip the tasks that stand in the results")
    parser.add_argument(
        "--max-cost", type=float, metavar="USD", help="stop when so much is spent, earlier runs included"
    )
    parser.add_argument("--results", type=Path, metavar="FILE", help="default: tasks-MODEL.jsonl")
    parser.add_argument("tasks", nargs="*", metavar="TASK", help="default: all")
    options = parser.parse_args(arguments)
    if wrong := set(options.tasks) - set(names()):
        parser.error(f"no task {', '.join(sorted(wrong))}; there are {', '.join(names())}")
    options.results = options.results or Path(f"tasks-{options.model.replace('/', '-')}.jsonl")
    if options.results.exists() and not options.resume:
        parser.error(f"{options.results} exists: continue with --resume, or remove it")
    return options


def main(arguments: Sequence[str], ask: Ask = run_nexus) -> int:
    """Run the tasks; return 0 if all are solved, 1 if not, 3 if the run was stopped: the dollars ran out, it was
    interrupted, or the model cannot be reached. Raises `SystemExit` for usage."""
    options = _read_options(arguments)
    rows: list[Row] = []
    if options.results.exists():
        text = options.results.read_text()
        whole = text[: text.rfind("\n") + 1]
        if whole != text:  # the last line was cut off
            options.results.write_text(whole)
        lines = whole.splitlines()
        rows = [row for row in map(json.loads, lines) if row["model"] == options.model]
    done = {row["task"] for row in rows if not row["stopped"]}
    tools = discover_tools()
    stopped = ""
    for name in options.tasks or names():
        task = load(name)
        if name in done or task.answers or (task.tool and task.tool not in tools):
            continue
        left = None if options.max_cost is None else options.max_cost - sum(row["cost"] or 0.0 for row in rows)
        if left is not None and left <= 0:
            stopped = NO_DOLLARS
            break
        try:
            row = play(task, options.model, left, ask)
        except KeyboardInterrupt:
            stopped = "interrupted"
            break
        stopped = row["stopped"]
        if stopped and not row["steps"]:
            break
        rows.append(row)
        with options.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{name}: {'solved' if row['solved'] else row['why']}", file=sys.stderr)
        if stopped:
            break
    print(format_table(rows))
    if stopped:
        print(f"Stopped: {stopped}. Continue with --resume{', and a higher --max-cost' * (stopped == NO_DOLLARS)}.")
        return 3
    return 0 if all(row["solved"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
