"""`nexus model list | show`: what is usable, and all that is known of one model."""

from __future__ import annotations

from typing import Any

from nexus_cli.ui.reports.lines import Value, filled, number, table

NONE = "No model is usable yet: no key in the environment, no local server. `nexus doctor` says what to do."
PRICES = (
    ("input_price", "input"),
    ("output_price", "output"),
    ("cache_read_price", "read from cache"),
    ("cache_write_price", "write to cache"),
)


def models_text(value: Value, width: int) -> str:
    """The models that are usable now."""
    models = value["models"]
    if not models:
        return "\n".join(filled(NONE, width))
    rows = [("", "model", "window", "$ in", "$ out", "cache", "because")]
    for m in models:
        mark = "*" if m["name"] == value.get("chosen") else ""
        prices = (number(m["input_price"]), number(m["output_price"]), "yes" if m["cache"] else "no")
        rows.append((mark, m["name"], _window(m), *prices, ", ".join(m["because"])))
    foot = "$ per million tokens, - is unknown. * is used when none is named."
    return "\n".join([*table(rows, width, right=(2, 3, 4)), "", *filled(foot, width)])


def model_text(value: Value, width: int) -> str:
    """One model: where it goes, its window, its prices."""
    rows = [
        ("model", value["name"] + (" (used when none is named)" if value.get("chosen") else "")),
        ("provider", value.get("provider") or "unknown"),
        ("window", f"{_window(value)} tokens{_origin(value)}"),
        ("output", f"at most {number(value['max_output'])} tokens" if value["max_output"] else "unknown"),
        *((f"$ {name}", _price(value[key])) for key, name in PRICES),
        ("cache", "yes" if value["cache"] else "no"),
        ("images", "yes" if value["images"] else "no"),
        ("effort", "yes" if value.get("effort") else "no"),
        ("because", ", ".join(value.get("because", ())) or "-"),
    ]
    size = max(len(name) for name, _ in rows) + 2
    if width < size + 16:
        return "\n".join(line for name, text in rows for line in filled(f"{name}: {text}", width, "  ", ""))
    return "\n".join(line for name, text in rows for line in filled(text, width, " " * size, name.ljust(size)))


def _price(value: Any) -> str:
    return "unknown" if value is None else f"{number(value)} per million tokens"


def _window(model: Value) -> str:
    return number(model["window"]) if model["known"] or model["window_told"] else f"{model['window']:,}?"


def _origin(model: Value) -> str:
    """Where a window comes from that the table does not have."""
    if model["window_told"]:
        return f", as a refusal said; [models.\"{model['name']}\"] window in config.toml wins over it"
    return "" if model["known"] else ", assumed: it is not in the table"
