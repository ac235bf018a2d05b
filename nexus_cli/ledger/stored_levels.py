"""Parse the levels in stored options and memos, which former versions wrote by their former names."""

from __future__ import annotations

import json

from nexus_cli.core.json_value import JsonDict, JsonObject
from nexus_cli.core.limits import FORMER_NAMES, parse_level
from nexus_cli.core.memo_kinds import DECISION, LIMITS_IN_FORCE

_ORIGINS = {f"level {former}": f"level {level}" for level, former in FORMER_NAMES.items()}


def read_options(text: str) -> JsonDict:
    """Return the options of a run, a plan or an agent."""
    options: JsonDict = json.loads(text)
    return options | {"allow": parse_level(options["allow"])} if "allow" in options else options


def read_memo(kind: str, text: bytes) -> JsonDict:
    """Return the value of a memo."""
    value: JsonDict = json.loads(text)
    if kind == LIMITS_IN_FORCE:
        value["limits"] = [_read_bound(limit) if limit["name"] == "allow" else limit for limit in value["limits"]]
    elif kind == DECISION:
        value["level"] = parse_level(value["level"])
        for part in (value, *value.get("parts", ())):
            part["from"] = _ORIGINS.get(part["from"], part["from"])
    return value


def _read_bound(bound: JsonObject) -> JsonObject:
    levels = {layer: parse_level(level) for layer, level in bound.get("said", {}).items()}
    return {**bound, "value": parse_level(bound["value"]), "said": levels}
