"""The job: "call the legacy fee flat in shop.py, add the helpers, tell me where they are".

A file a sixth over the cap of one result, thirteen edits of which one changes nothing, the tests in the same message,
and an answer that names lines. Three requests are enough.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

from laws.world import exact
from program.stage import Stage, calls, stage
from server.received import tool_results

from nexus_cli.core.budget import TokenBudget

PARTS = 145
"""Functions of the shop: so many that its file is a sixth over the cap of one result."""
HELPERS = [17, 30, 44, 58, 71, 85, 98, 104, 111, 125]
"""Functions that get a helper in front of them."""
TEST = """import unittest, shop

class Shop(unittest.TestCase):
    def test_amount(self):
        self.assertEqual(shop.part_3([1, 2], 2), 13)
        self.assertEqual(shop.helper_58(3), 61)
        self.assertEqual(shop.last(), 51)
"""


def shop() -> str:
    kinds = ("own", "legacy")
    parts = [
        f"def part_{n}(items, rate):\n"
        f'    """Add up part {n} of the order, with its {kinds[n % 40 == 0]} fee."""\n'
        "    total = 0\n    for item in items:\n"
        f"        total += item * rate\n    fee = {n} + len(items) * 2\n    return total + fee\n"
        for n in range(PARTS)
    ]
    return "\n\n".join(parts)


def helper(number: int) -> str:
    return f"def helper_{number}(value):\n    return value + {number}\n"


def edits() -> list[dict[str, Any]]:
    """Twelve that change something: one in four places, ten helpers, a function at the end; and one that does not."""
    end = "\n\ndef last():\n    rows = [\n" + "        1,\n" * 51 + "    ]\n    return sum(rows)\n"
    signatures = {number: f"def part_{number}(items, rate):\n" for number in HELPERS}
    return [
        {"old": "legacy fee", "new": "flat fee", "all": True},
        *({"old": line, "new": f"{helper(number)}\n\n{line}"} for number, line in signatures.items()),
        {"old": "", "new": end},
        {"old": "    fee = 5 + len(items) * 2\n", "new": "    fee = 5 + len(items) * 2\n"},
    ]


def model(body: Any) -> dict[str, Any]:
    """Reads the file, edits it and tests it, then answers with the lines that the result of the edit shows."""
    results = tool_results(body)
    if not results:
        return calls(("read_file", {"path": "shop.py"}))
    if len(results) == 1:
        test = {"command": f"{shlex.quote(sys.executable)} -m unittest -q"}
        return calls(("edit_file", {"path": "shop.py", "edits": edits()}), ("bash", test))
    seen = re.findall(r"^(\d+)-\d+ def (helper_\w+)", results[1], re.MULTILINE)
    return {"text": "\n".join(f"shop.py:{number} {name}" for number, name in seen)}


def ask(place: Stage) -> list[str]:
    """The job as a person gives it; return the results of the calls."""
    done = place.ask("--allow", "all", "call the legacy fee flat in shop.py, add the helpers, tell me where they are")
    assert done.status == 0, done
    written = (place.folder / "shop.py").read_text().split("\n")
    named = [line.split(" ") for line in done.text.splitlines()]
    assert [name for _, name in named] == [f"helper_{number}" for number in HELPERS]
    for reference, name in named:
        assert written[int(reference.removeprefix("shop.py:")) - 1].startswith(f"def {name}("), reference
    return place.results


def test_a_long_file_is_read_at_once_and_edited_and_tested_in_one_message(tmp_path: Path) -> None:
    text, cap = shop(), TokenBudget.of(128_000).output_cap
    assert 1.1 * cap < exact(text) < 1.25 * cap
    with stage(tmp_path, model) as place:
        (place.folder / "shop.py").write_text(text)
        (place.folder / "test_shop.py").write_text(TEST)
        made = place.shell("git init -q . && git add -A && git -c user.name=n -c user.email=n@x commit -qm x")
        assert made.status == 0, made
        read, edited, tested = ask(place)
        assert len(place.server.requests) == 3
        assert "run in order" in place.server.requests[0].body["messages"][0]["content"]
    assert read == text
    notes = edited.split("\n")[0]
    assert notes == "[edit 1 of 13: 4 places; edit 13 of 13 skipped: `old` and `new` are the same]"
    assert "    return" not in edited and len(edited) < 700, "what is new is not repeated"
    assert "OK" in tested and tested.endswith("[exit status 0]")
