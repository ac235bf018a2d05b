"""The two jobs of the pictures: a night that nobody watches, and a manager with three workers.

Owns the projects and the words of the model, which goes by what the results say. Who types what is `record`'s business.
"""

from __future__ import annotations

import json
from typing import Any

from program.stage import calls
from server.received import tool_results

TESTS = "python3 -m unittest -q"
PRICE = "def with_tax(price):\n    return round(price * 1.19, 2)\n"
CHECK = (
    "import unittest\n\nfrom price import with_tax\n\n\n"
    "class Price(unittest.TestCase):\n"
    "    def test_tax(self):\n"
    "        self.assertEqual(with_tax(100), 119)\n"
)
NIGHT = {"price.py": PRICE, "test_price.py": CHECK}
COMMITS = (
    "git checkout -qb nightly",
    "git commit -qam 'Charge 19 % tax again'",
    "git push -q origin nightly",
    "git checkout -q main",
)
FOUND = "test_tax failed: 16 instead of 19 percent. Fixed, the tests pass, pushed as branch nightly."

END = "    return sum(PRICES[book] for book in books)\n"
SHOP = {"cart.py": f'PRICES = {{"novel": 12, "atlas": 30}}\n\n\ndef total(books):\n{END}'}
ASKED = "let three workers add shipping, gift wrap and a help text; bring it together"
TASKS = (
    "add shipping to cart.py, with a test",
    "add gift wrap to cart.py, with a test",
    "write down what the cart does",
)
TEST = "import unittest\n\nimport cart\n\n\nclass {0}(unittest.TestCase):\n    def test_{1}(self):\n        {2}\n"
SHIPPING = "\n\ndef shipping(books):\n    return 3 if total(books) < 20 else 0\n"
GIFT = "\n\ndef gift(books):\n    return total(books) + 2\n"
MERGED = f"sed -i '/^[<=>]\\{{7\\}}/d' cart.py && {TESTS}"
"""Takes the marks of the conflict away, so that both sides stay."""
STEERED = "gift wrap is 2 for each book, not for the cart"


def done(body: Any) -> list[tuple[str, dict[str, Any]]]:
    """The calls so far, with their arguments."""
    made = [call["function"] for one in body["messages"] for call in one.get("tool_calls") or ()]
    return [(one["name"], json.loads(one["arguments"])) for one in made]


def works_at_night(body: Any) -> dict[str, Any]:
    """Run the tests, fix the price, commit and push that on a branch."""
    ran, got = done(body), tool_results(body)
    if not ran:
        return calls(("bash", {"command": TESTS}))
    if len(ran) == 1:
        assert "FAILED" in got[0], got
        edit = {"path": "price.py", "edits": [{"old": "1.16", "new": "1.19"}]}
        return calls(("edit_file", edit), ("bash", {"command": TESTS}))
    left = COMMITS[len(ran) - 3 :]
    if left:
        assert "OK" in got[2], got
        outside = {"outside": "the remote is elsewhere"} if "push" in left[0] else {}
        return calls(("bash", {"command": left[0], **outside}))
    assert not any("error" in one for one in got[3:]), got
    return {"text": FOUND}


def _adds(name: str, code: str, check: str) -> dict[str, Any]:
    """What a worker does that adds a function to the cart, with a test."""
    edit = {"path": "cart.py", "edits": [{"old": END, "new": END + code}]}
    test = {"path": f"test_{name}.py", "content": TEST.format(name.title(), name, check)}
    return calls(("edit_file", edit), ("write_file", test), ("bash", {"command": TESTS}))


def _ships(body: Any) -> dict[str, Any]:
    if not done(body):
        return _adds("shipping", SHIPPING, 'self.assertEqual(cart.shipping(["novel"]), 3)')
    return {"text": "shipping is in, with a test that passes."}


def _wraps(body: Any) -> dict[str, Any]:
    made = done(body)
    if not made:
        return _adds("gift", GIFT, 'self.assertEqual(cart.gift(["novel", "atlas"]), 46)')
    if len(made) == 3 and STEERED in str(body["messages"][-1]["content"]):
        edit = {"path": "cart.py", "edits": [{"old": "+ 2\n", "new": "+ 2 * len(books)\n"}]}
        return calls(("edit_file", edit), ("bash", {"command": TESTS}))
    assert ("OK" if len(made) > 3 else "FAILED") in tool_results(body)[-1], tool_results(body)
    return {"text": "gift wrap is right now, its test passes." if len(made) > 3 else "gift wrap is in; its test fails."}


def _describes(body: Any) -> dict[str, Any]:
    if not done(body):
        return calls(("write_file", {"path": "HELP.md", "content": "`total(books)` is the sum of their prices.\n"}))
    return {"text": "HELP.md says what the cart does."}


def _manages(body: Any) -> dict[str, Any]:
    made, got = done(body), tool_results(body)
    acts = [arguments["action"] for name, arguments in made if name == "agents"]
    if not made:
        return calls(*(("agent", {"task": task, "worktree": True}) for task in TASKS))
    if not acts:
        return calls(*(("agents", {"action": "diff", "agent": f"w{number}"}) for number in (1, 2, 3)))
    if "steer" not in acts:
        return calls(("agents", {"action": "steer", "agent": "w2", "text": STEERED}))
    if "apply" not in acts:
        return calls(*(("agents", {"action": "apply", "agent": f"w{number}"}) for number in (1, 2, 3)))
    if made[-1][0] == "agents":
        assert "conflict in cart.py" in got[-2], got
        words = "w1 and w2 both added to the end of cart.py: I keep both."
        return {"text": words} | calls(("bash", {"command": MERGED}))
    assert "OK" in got[-1], got
    return {"text": "All three are in, and the tests pass. w2 had to count the gift wrap per book."}


def manages(body: Any) -> dict[str, Any]:
    """The manager and its three workers, told apart by the task."""
    first = next(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    for task, worker in zip(TASKS, (_ships, _wraps, _describes), strict=True):
        if f"# Task\n{task}" in first:
            return worker(body)
    return _manages(body)
