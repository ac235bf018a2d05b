"""What the model says in the tests of this room."""

from __future__ import annotations

from typing import Any

SHOP = 'PRICE = {"tea": 4}\n\n\ndef total(names):\n    return sum(PRICE[name] for name in names)\n'
ANSWER = """# What was done

The total now takes a **discount**, see `shop.py`:

- `total` has a second argument
  - it is a share, from 0 to 1
- nothing else changed

| call | result |
|---|---:|
| `total(["tea"])` | 4 |
| `total(["tea"], 0.5)` | 2 |

```python
def total(names, discount=0):
    return sum(PRICE[name] for name in names) * (1 - discount)
```

Ready: 日本語 and 👩‍👩‍👧 too.
"""
EDITS = [
    {"old": "def total(names):", "new": "def total(names, discount=0):"},
    {"old": "for name in names)", "new": "for name in names) * (1 - discount)"},
]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A step with one call."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def conversation(**more: Any) -> list[Any]:
    """Reads, edits, runs a command that fails, and says what was done; `more` are fields of the last answer."""
    return [
        {"thinking": "Look first.", "text": "I look at it first.", **call("read_file", path="shop.py")},
        call("edit_file", path="shop.py", edits=EDITS),
        call("bash", command="sh -c 'echo no tests here; exit 3'"),
        {"text": ANSWER, **more},
    ]


def numbered(count: int, every: int = 1) -> str:
    """So many paragraphs `row 0000`; with `every` so many lines in one fence each time."""
    rows = [f"row {number:04d}" for number in range(count)]
    if every == 1:
        return "\n\n".join(rows) + "\n"
    fences = ["\n".join(rows[start : start + every]) for start in range(0, count, every)]
    return "\n\n".join(f"```\n{fence}\n```" for fence in fences) + "\n"


def rows_of(lines: list[str]) -> list[str]:
    """The numbered rows among `lines`, as they stand there."""
    return [line.strip() for line in lines if line.strip().startswith("row ")]
