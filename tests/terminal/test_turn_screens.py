"""One turn as it stands in the scrollback: calls folded, a diff, commands, prose; as each terminal may want it."""

from __future__ import annotations

from typing import Any

import pytest
from search import sample
from terminal.golden import check, styled
from terminal.repl import Opens
from terminal.stories import SHOP, tool_call

FILES = {
    "shop.py": SHOP,
    "notes.md": "# Notes\n\n- tea\n",
    "test_shop.py": "import shop\n\n\ndef test_it():\n    pass\n",
}
PROSE = (
    "The **discount** is taken from the sum of all prices and not from each price by itself, because a share of each "
    "would be rounded once per name, and the receipt would not add up. See https://example.org/rounding for the rule."
)
ANSWER = f"""{PROSE}

| call | result |
|---|---:|
| `total(["tea"])` | 8 |

```python
total(["tea"], discount=0.5)
```
"""


def story() -> list[Any]:
    reads = [tool_call("read_file", path=path) for path in FILES]
    more = [
        tool_call("grep", pattern="total"),
        tool_call("glob", pattern="**/*.py"),
        tool_call("read_file", path="shop.py", limit=2),
    ]
    total = "sum(PRICE[name] for name in names)"
    edit = {"old": total, "new": f"{total} * 2"}
    commands = [tool_call("bash", command=line) for line in ("echo 1 failed | tail -1", "exit 3", "echo fine")]
    return [
        {"calls": [*reads, more[0]]},
        {"calls": more[1:]},
        {"text": "Now the change.", "calls": [tool_call("edit_file", path="shop.py", edits=[edit])]},
        {"calls": commands},
        {"text": ANSWER},
    ]


@pytest.mark.parametrize(
    ("name", "columns", "settings", "env"),
    sample(
        [
            ("turn_60", 60, "", {}),
            ("turn_100", 100, "", {}),
            ("turn_160", 160, "", {}),
            ("turn_light", 100, '[ui]\ntheme = "light"\n', {}),
            ("turn_no_color", 100, "", {"NO_COLOR": "1"}),
            ("turn_dumb", 100, "", {"TERM": "dumb"}),
            ("turn_100", 100, "", {"TERM_PROGRAM": "WezTerm"}),
        ],
        3,
    ),
    ids=str,
)
def test_a_turn_is_seen_at_a_glance(repl: Opens, name: str, columns: int, settings: str, env: dict[str, str]) -> None:
    arguments = ("--allow", "all")
    made = repl(story(), files=FILES, rows=90, columns=columns, settings=settings, env=env, arguments=arguments)
    made.say("double it" if made.dumb else "double it\nand tell me why", ends=False)
    made.requested(len(story()))
    made.wait_for("· 5 steps")
    made.idle()
    rows = made.lines()
    first = next(place for place, row in enumerate(rows) if "double it" in row)
    end = next(place for place, row in enumerate(rows) if row.startswith("· 5 steps"))
    check(name, (rows if made.dumb else styled(made.cells()))[first:end])
    assert (b"\x1b]8;;file://" in made.raw) is (b"\x1b]8;" in made.raw) is ("TERM_PROGRAM" in env)
