"""Permission levels in what programs read: each object with `allow` has `level`, and no other key has a former name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from program.test_serve import serving, token_of

from nexus_cli.client import Client
from nexus_cli.core.limits import FORMER_NAMES

DO = calls(
    ("bash", {"command": "touch made"}),
    ("bash", {"command": "touch net", "network": True}),
    ("agent", {"task": "WORK", "limits": {"allow": "read"}}),
)


def objects(value: Any, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each object in `value` with its place, but for the arguments of calls, which are the model's words."""
    below = enumerate(value) if isinstance(value, list) else value.items() if isinstance(value, dict) else ()
    if isinstance(value, dict):
        yield where, value
    for key, one in below:
        if key != "arguments":
            yield from objects(one, f"{where}.{key}")


def problems(value: Any, name: str) -> Iterator[str]:
    """Yield the places where a level has only its former name, or has it under another key than `allow`."""
    former = {*FORMER_NAMES.values(), *(f"level {name}" for name in FORMER_NAMES.values())}
    for where, one in objects(value, name):
        level = one.get("level")
        if isinstance(one.get("allow"), str) and one["allow"] != FORMER_NAMES.get(str(level), level):
            yield f"{where}: allow is {one['allow']!r}, level is {level!r}"
        origin = None if name.startswith("rules test") else one.get("from")
        named = [level, origin, *(row["name"] for row in one.get("levels", ()))]
        named += [one["value"], *one["said"].values()] if one.get("name") == "allow" and "said" in one else []
        yield from (f"{where} says {word!r}" for word in named if word in former)


def levels(value: Any) -> list[str]:
    """Return the level of each object that has `allow`, in order."""
    return [one["level"] for _, one in objects(value, "") if isinstance(one.get("allow"), str)]


def outputs(place: Stage) -> Iterator[tuple[str, Any]]:
    """Yield what commands print as JSON, in a session at the level `auto` and with a plan and a run at `ask`."""
    run = place.run("ask", "--stream-json", "--allow", "run", "go")
    yield from ((line["type"], line) for line in map(json.loads, run.stdout.splitlines()))
    yield "ask", place.ask("--json", "--allow", "read", "go").result
    (place.folder / "ci.log").unlink(missing_ok=True)
    yield "schedule", place.run("schedule", "add", "look", "--in", "1h", "--allow", "run", "--json").result
    place.run("schedule", "run", "1")
    for words in (
        ["status"],
        ["context"],
        ["context", "--step", "1"],
        ["why"],
        ["runs", "list"],
        ["runs", "show", "1"],
        ["schedule", "list"],
        ["config", "show"],
        ["rules", "test", "--allow", "run", "touch x"],
        ["rules", "test", "--allow", "read", "touch x"],
    ):
        yield " ".join(words), place.run(*words, "--json").result


async def answers(url: str, token: str, folder: Path) -> list[tuple[str, Any]]:
    """Return what a server answers about the level of an agent."""
    async with Client(url, token) as client:
        made = await client.create_agent("a", allow="read", cwd=str(folder))
        listed = await client.list_agents()
        commands = [("permissions", ""), ("status", ""), ("status", "tools"), ("why", "allow")]
        return [
            ("create_agent", made),
            ("list_agents", listed),
            *[(f"/{name} {rest}", dict(await client.run_command("a", name, rest))) for name, rest in commands],
        ]


@pytest.mark.matrix
def test_what_programs_read_has_the_level_beside_its_former_name(tmp_path: Path) -> None:
    with stage(tmp_path) as place:
        place.settings(f'allow = "run"\n{QUICK}{PRICED}')
        work = {"when": {"contains": "WORK", "last_role": "user"}, "then": {"text": "worked"}}
        place.script({"rules": [work, {"when": {"last_role": "user"}, "then": DO}], "default": {"text": "done"}})
        shown = list(outputs(place))
        with serving(place, "--allow", "run") as (_, printed):
            shown += asyncio.run(answers(printed["url"], token_of(printed), place.folder))
    assert [line for name, value in shown for line in problems(value, name)] == []
    found: dict[str, list[str]] = {}
    for name, value in shown:
        found.setdefault(name, []).extend(levels(value))
    assert found["ask"] == ["auto"] and found["schedule"] == found["status"] == ["auto"]
    assert found["runs list"] == found["runs show 1"] == ["auto"]
    assert found["create_agent"] == found["list_agents"] == ["ask"]
    assert set(found["context.plan"]) == {"auto", "ask"} and set(found["agent.state"]) == {"ask"}
    rules = [value["parts"][0]["from"] for name, value in shown if name.startswith("rules test")]
    assert rules == ["level run", "level read"], "scripts know the former names, beside `level`"
    assert [value["level"] for name, value in shown if name.startswith("rules test")] == ["auto", "ask"]
    settings = next(value["settings"] for name, value in shown if name == "config show")
    assert settings["allow"]["value"] == "auto"


def test_a_former_name_alone_is_found() -> None:
    rows: list[Any] = [
        {"allow": "run"},
        {"allow": "auto", "level": "auto"},
        {"level": "read"},
        {"name": "allow", "value": "auto", "said": {"settings": "run"}},
        {"parts": [{"from": "level read"}]},
        {"levels": [{"name": "run"}]},
    ]
    assert [bool(list(problems(row, "row"))) for row in rows] == [True] * len(rows)
