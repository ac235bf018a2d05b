"""The job: "mistyped commands suggest what was meant", a long task in a window of 24,000.

Eight modules are read, a part of one again and again, so that the window is summarized in the midst of the run. The
summaries are longer than what was asked for, and a list is changed at the end from what the model still knows.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from program.stage import MODEL, Stage, calls, stage

TASK = "Mistyped commands shall suggest what was meant. Never touch setup.py."
WINDOW = f'[models."{MODEL}"]\nwindow = 24000\nmax_output = 6000\ninput_price = 2.0\noutput_price = 8.0\n'
MODULES = ("core", "parser", "utils", "types", "shell", "tests", "formats", "errors")
SUMMARY = "## Decisions\n{}\n## Next\nThe next module, then the edit of known.py. It has been looked at.\n"
DECIDED = "It was decided to compare by difflib, as the parser did it before: cutoff 0.6, three names at most. "


def module(name: str) -> str:
    parts = [
        f"def {name}_{n}(context, value):\n"
        f'    """Return what {name} number {n} makes of a value."""\n'
        f"    found = context.look_up({n} + value)\n    return [one for one in found if one.number > {n}]\n"
        for n in range(170)
    ]
    return "\n\n".join(parts)


def asks_for_summary(body: Any) -> bool:
    said = str(body["messages"][-1]["content"])
    return "replaced by your summary" in said or "Sum up the conversation below" in said


def model(body: Any) -> dict[str, Any]:
    """Reads each module, whole and in part, then edits; what was read last stands in the path of the newest result."""
    if asks_for_summary(body):
        asked = int(re.findall(r"(?:at most|Keep to) ([\d,]+) tokens", str(body["messages"][-1]["content"]))[-1])
        return {"text": SUMMARY.format(DECIDED * (asked // 20))}
    done = [call["function"] for one in body["messages"] for call in one.get("tool_calls") or ()]
    if not done:
        return calls(("read_file", {"path": "core.py"}))
    path = json.loads(done[-1]["arguments"])["path"].removesuffix(".py")
    if path == "known":
        return {"text": "Done."}
    if done[-1]["name"] == "read_file" and path == MODULES[-1]:
        return calls(("edit_file", {"path": "known.py", "edits": [{"old": "[]", "new": "['run']"}]}))
    later = MODULES[MODULES.index(path) + 1]
    return calls(("read_file", {"path": "core.py", "offset": 840, "limit": 50}), ("read_file", {"path": f"{later}.py"}))


def test_a_long_task_in_a_small_window_keeps_what_was_paid_for(tmp_path: Path) -> None:
    with stage(tmp_path, model) as place:
        place.settings(WINDOW)
        for name in MODULES:
            (place.folder / f"{name}.py").write_text(module(name))
        (place.folder / "known.py").write_text("names = []\n")
        done = place.ask("--allow", "all", "--json", TASK)
        assert done.status == 0 and done.result["text"] == "Done.", done
        assert (place.folder / "known.py").read_text() == "names = ['run']\n"
        sent = [one.body["messages"] for one in place.server.requests]
        check_requests(place, sent)


def check_requests(place: Stage, sent: list[list[dict[str, Any]]]) -> None:
    texts = ["\n".join(str(one.get("content")) for one in messages) for messages in sent]
    summaries = [number for number, one in enumerate(place.server.requests) if asks_for_summary(one.body)]
    assert len(summaries) == 2 and summaries[1] > summaries[0] + 1, "each is asked for once"
    assert all(TASK in text for text in texts), "the request stands in every request, also in that for a summary"
    for number in summaries:
        assert "Repeat none of this" in texts[number]
        after, newest = texts[number + 1], str(sent[number + 1][-1]["content"])
        assert DECIDED * 50 in after and "## Next" in after, "a summary that is too long is used"
        assert "- core.py (read 1-92, 840-889, 927-1018 of 1,018)" in after
        assert re.search(r'The originals: recall\("d\d+"\)', after)
        assert newest.endswith("if one.number > 169]\n") and "[nexus:" not in newest, "the summary says it, no note"
