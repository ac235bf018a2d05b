"""The job: "show my colleague how the discount was fixed": a session with edits, a refused call and a compaction is
exported as a page, and the page is opened in a browser where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, Stage, calls, stage

WINDOW = f'[models."{MODEL}"]\nwindow = 12000\nmax_output = 2000\ninput_price = 2.0\noutput_price = 8.0\n'
KEY = "sk-live-4f9a8b7c6d5e4f3a2b1c0d9e8f7a"
CODE = "def total(prices, rate=0.1):\n    return sum(prices) * (1 + rate)\n"
ANSWER = """\
The discount was **added** instead of subtracted. See [the docs](https://example.org/a?b=1&c=2) and
[this](javascript:alert(1)) and ![a picture](https://example.org/x.png).

| what | before |
|---|---|
| `rate` | 0.1 |

<script>alert("inert")</script>

```python
def total(prices, rate=0.1):
    return sum(prices) * (1 - rate)
```
"""


def model(body: Any) -> dict[str, Any]:
    """Reads eight files, edits one, tries to leave the project, answers; twice."""
    said = str(body["messages"][-1]["content"])
    if "replaced by your summary" in said or "Sum up the conversation below" in said:
        return {"text": "## Decisions\nThe rate is subtracted.\n## Next\nTell it.\n"}
    person = [one for one in body["messages"] if one["role"] == "user"][-1]
    after = body["messages"][body["messages"].index(person) :]
    done = [call["function"]["name"] for one in after for call in one.get("tool_calls") or ()]
    if "discount" in str(person["content"]):
        steps = [
            calls(("read_file", {"path": "price.py"}), ("read_file", {"path": "long0.txt"})),
            calls(("edit_file", {"path": "price.py", "edits": [{"old": "1 + rate", "new": "1 - rate"}]})),
            calls(("bash", {"command": f"echo OPENAI_API_KEY={KEY}; seq 4000"})),
            calls(("write_file", {"path": "/etc/nexus-test", "content": "x"})),
        ]
        taken = sum(1 for one in after if one.get("tool_calls"))
        return steps[taken] if taken < len(steps) else {"text": ANSWER}
    reads = done.count("read_file")
    return calls(("read_file", {"path": f"long{reads}.txt"})) if reads < 6 else {"text": "All six are read."}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, model) as made:
        made.settings(WINDOW)
        (made.folder / "price.py").write_text(CODE)
        for number in range(6):
            (made.folder / f"long{number}.txt").write_text("".join(f"{number} line {n}: words\n" for n in range(330)))
        made.ask("--allow", "auto", "Fix the discount in price.py; my key is " + KEY)
        made.ask("-c", "--allow", "auto", "Now read the six long files.")
        yield made


def test_it(place: Stage) -> None:
    import shutil

    shutil.copytree(place.home, "/tmp/w/seen/home", dirs_exist_ok=True)
    print(place.run("sessions", "list").text)
    print(place.run("timeline").text)
    done = place.run("export", "--html", "-o", "/tmp/w/seen/page.html")
    print(done)
    assert 0
