"""The job: "round the tax as the specification says": what a task needs stands in a long module, a PDF, a notebook and
a log.

The model looks where things are before it reads, takes two ranges at once, and is not sent the same text twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import Stage, calls, stage
from server.received import tool_results
from tools.documents import make_notebook, make_pdf

TAX, TOTAL = 2703, 4403
SPECIFICATION = ("Pricing specification", "Scope\nAll invoices.", "Rounding\nTax is rounded half up, to cents.")
TRACE = "ValueError: total 10.004999 has more than two digits"


def module() -> str:
    """A module of 5,000 lines, with the two functions that matter at `TAX` and `TOTAL`."""
    lines = ['"""Invoices."""', ""]
    while len(lines) < 5000:
        name, body = f"part_{len(lines)}(items, rate)", f"    return [item * rate + {len(lines)} for item in items]"
        if len(lines) + 1 == TAX:
            name, body = "tax(price, rate)", "    return price * rate"
        elif len(lines) + 1 == TOTAL:
            name, body = "total(prices, rate)", "    return sum(prices) + sum(tax(price, rate) for price in prices)"
        notes = [f"    # {number}: the price list may change over the year" for number in range(20)]
        lines += [f"def {name}:", '    """Work on a part."""', *notes, body, "", ""]
    return "\n".join(lines[:5000]) + "\n"


class Reader:
    """A model that reads as a careful person does, and answers what it found."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []

    def __call__(self, body: Any) -> dict[str, Any]:
        results = tool_results(body)
        self.seen.append(results)
        step = sum(one["role"] == "assistant" for one in body["messages"])
        if step == 0:
            return calls(("read_file", {"path": "invoices.py"}), ("read_file", {"path": "spec.pdf", "limit": 0}))
        if step == 1:
            rows = [row.partition(": ") for row in results[0].splitlines()]
            first = next(int(number) for number, _, line in rows if line.startswith("def tax("))
            second = next(int(number) for number, _, line in rows if line.startswith("def total("))
            page = next(int(row.partition(":")[0]) for row in results[1].splitlines() if row.endswith(": Rounding"))
            more = [f"invoices.py:{second}-{second + 25}", "missing.py:1-5"]
            return calls(
                ("read_file", {"path": "invoices.py", "offset": first, "limit": 25, "more": more}),
                ("read_file", {"path": "spec.pdf", "offset": page, "limit": 1}),
                ("read_file", {"path": "check.ipynb"}),
                ("read_file", {"path": "server.log", "offset": 40_000, "limit": 3}),
            )
        if step == 2:
            edit = {"old": "    return price * rate\n", "new": "    return round(price * rate, 2)\n"}
            return calls(
                ("read_file", {"path": "check.ipynb"}),
                ("edit_file", {"path": "invoices.py", "edits": [edit]}),
            )
        return {"text": "Rounded."}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        (made.folder / "invoices.py").write_text(module())
        (made.folder / "spec.pdf").write_bytes(make_pdf(SPECIFICATION))
        outputs = [
            {"output_type": "stream", "name": "stdout", "text": [f"row {n}\n" for n in range(500)]},
            {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo" * 5000, "text/plain": "<Figure>"}},
            {"output_type": "error", "ename": "ValueError", "evalue": TRACE, "traceback": ["\x1b[31mx" * 900]},
        ]
        cells: list[tuple[str, str, list[Any]]] = [
            ("markdown", "# Check of the totals\n" + "Every month. " * 90, []),
            ("code", "total([10], 0.1)", outputs),
        ]
        (made.folder / "check.ipynb").write_text(make_notebook(cells))
        (made.folder / "server.log").write_text("".join(f"{n} GET /invoice {TRACE}\n" for n in range(60_000)))
        yield made


def test_a_task_spread_over_a_long_module_a_pdf_a_notebook_and_a_log_is_done(place: Stage) -> None:
    model = Reader()
    place.script(model)
    before = (place.folder / "invoices.py").read_text()
    assert before.count("\n") == 5000 and before.split("\n")[TAX - 1].startswith("def tax(")
    run = place.ask("--allow", "auto", "--json", "Round the tax as the specification says.")
    assert run.status == 0 and run.result["text"] == "Rounded.", run
    assert run.result["files_changed"] == ["invoices.py"]
    assert (place.folder / "invoices.py").read_text() == before.replace("price * rate\n", "round(price * rate, 2)\n")
    long, spec, ranges, page, notebook, log, again, _edited = model.seen[-1]
    assert f"\n{TAX}: def tax(price, rate):\n" in long and f"\n{TOTAL}: def total(prices, rate):\n" in long
    assert 'left out: recall("' in long and '"""Invoices."""' in long, "the text follows, cut"
    assert spec == "[PDF; pages 3]\n1: Pricing specification\n2: Scope\n3: Rounding"
    tax, total, missing = ranges.split("\n\n[")[0], ranges[ranges.index("[invoices.py; lines 44") :], ranges[-80:]
    assert tax.startswith(f"[invoices.py; lines {TAX}-{TAX + 24} of 5000]\ndef tax(price, rate):\n")
    assert total.startswith(f"[invoices.py; lines {TOTAL}-{TOTAL + 25} of 5000]\ndef total(prices, rate):\n")
    assert "missing.py: No such file or directory" in missing
    assert page == "[PDF; pages 3-3 of 3]\n[page 3]\nRounding\nTax is rounded half up, to cents."
    assert "[cell 2, code]\ntotal([10], 0.1)\n[output]\nrow 0\n" in notebook and "iVBOR" not in notebook
    assert "[480 more lines]" in notebook and "[image/png]" in notebook and f"ValueError: {TRACE}" in notebook
    assert log == "[lines 40000-40002 of 60000]\n" + "".join(
        f"{n} GET /invoice {TRACE}\n" for n in range(39_999, 40_002)
    )
    assert again.startswith("[Unchanged: see the result of read_file check.ipynb above.") and len(again) < 120
