"""The list of steps that the tool `todo` keeps: its form in the ledger, and its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_ITEMS = 50
LONGEST_TEXT = 500
"""Most items of a list, and most characters of an item."""
OPEN = "open"
"""State of an item that names none."""
MARKS = {OPEN: " ", "doing": ">", "done": "x", "dropped": "-"}
"""The character between the brackets of an item, by state."""


def count_items(items: Sequence[Mapping[str, str]]) -> str:
    """Return the number of items that are done, and of all that were not dropped: `2 of 5 done`."""
    counted = [item for item in items if item["state"] != "dropped"]
    return f"{sum(item['state'] == 'done' for item in counted)} of {len(counted)} done"
