"""Of a long output of lines that differ in numbers at most, the model reads the first and the last."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from engine.test_files_read_whole import results
from hypothesis import given
from hypothesis import strategies as st
from laws.world import exact

from nexus_cli.core.elide import FOLDED_EDGE_LINES, MIN_FOLDED_LINES, fold_lines

LOG = "seq -f 'line %.0f of the long output' 4000"
MARKER = re.compile(r"\[\.\.\. ([\d,]+) lines like these left out \.\.\.\]")


def test_a_long_log_of_equal_lines_takes_a_few_and_all_of_it_can_be_recalled(tmp_path: Path) -> None:
    command = f"{LOG}; echo FAILED: one; {LOG}; echo done"
    shown, recalled, found = results(
        tmp_path,
        64_000,
        [("bash", {"command": command})],
        [("recall", {"id": "d1", "range": "0:200"})],
        [("recall", {"id": "d1", "query": "line 2345 of"})],
    )
    first, *lines = shown.splitlines()
    assert first == '[7,992 repeated lines left out: recall("d1")]'
    ends = [f"line {number} of the long output" for number in (1, 2, 3, 4000)]
    half = [*ends[:3], "[... 3,996 lines like these left out ...]", ends[3]]
    assert lines == [*half, "FAILED: one", *half, "done", "[exit status 0]"]
    assert exact(shown) < 200
    assert recalled.count("of the long output") >= 6 and "line 2345 of" in found


@pytest.mark.matrix
def test_an_output_that_fits_the_cap_stays_as_it_is(tmp_path: Path) -> None:
    (shown,) = results(tmp_path, 64_000, [("bash", {"command": LOG.replace("4000", "300")})])
    assert shown.count("of the long output") == 300 and "left out" not in shown


@pytest.mark.matrix
def test_numbers_alone_are_data_and_are_cut_as_ever(tmp_path: Path) -> None:
    (shown,) = results(tmp_path, 64_000, [("bash", {"command": "seq -f '%.0f,17.5' 9000"})])
    assert not MARKER.search(shown) and shown.count(",17.5") > 1000


LINES = st.lists(
    st.tuples(st.sampled_from(["ok {}", "FAIL {}", "{},{}", "", "ok {} s", "é {}"]), st.integers(1, 60)), max_size=6
)


@given(LINES)
def test_no_word_is_lost_and_the_count_is_true(runs: list[tuple[str, int]]) -> None:
    lines = [form.replace("{}", str(number)) for form, count in runs for number in range(count)]
    text = "\n".join(lines)
    shown, left = fold_lines(text)
    kept = [line for line in shown.split("\n") if not MARKER.fullmatch(line)]
    counts = [int(found.replace(",", "")) for found in MARKER.findall(shown)]
    assert sum(counts) == left and all(one >= MIN_FOLDED_LINES for one in counts)
    assert len(kept) + left == len(text.split("\n"))
    words = [re.sub(r"\d+", "", line) for line in text.split("\n")]
    assert set(words) == {re.sub(r"\d+", "", line) for line in kept}
    rest = iter(text.split("\n"))
    assert all(line in rest for line in kept), "what is kept stands in its order"
    assert left == 0 or len(kept) >= FOLDED_EDGE_LINES
