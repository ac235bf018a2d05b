"""`/diff`: what changed in the working folder, as a unified diff."""

from __future__ import annotations

import re

from nexus_cli.ui.reports.lines import Value, filled, folded, plural, shortened

LINES, NAMES = 1000, 50
"""Lines of a diff, and names of files, that are shown at most."""
_ENDS = re.compile(r"(?m)^[-+ ].*?(\r?)$")


def diff_text(value: Value, width: int) -> str:
    """Return the diff, then files that git does not track; without git the files that the session changed."""
    lines: list[str] = []
    if value["source"] != "git":
        why = str(value["why"])
        lines += filled(f"{why[:1].upper()}{why[1:]}: these are the files that this session changed.", width)
        return "\n".join([*lines, *(_names(value["files"], width) or ["  none"])])
    text = str(value["text"]).rstrip("\n")
    if text:
        lines += shortened(folded(mark_line_ends(text), width), LINES, width)
        if value.get("cut"):
            lines += filled(f"[the diff is larger than shown: {value['cut']}]", width)
    else:
        lines += filled("No changes to tracked files.", width)
    untracked = value.get("untracked", [])
    if untracked:
        count = int(value.get("untracked_count", len(untracked)))
        lines += ["", *filled(f"{plural(count, 'untracked file')}:", width), *_names(untracked, width)]
        if count > len(untracked):
            lines += filled(f"[and {plural(count - len(untracked), 'file')} not listed]", width)
    return "\n".join(lines)


def mark_line_ends(text: str) -> str:
    """Return a diff with `^M` for the `\\r` at the end of each line in the hunks where only some lines have one."""
    return "".join(
        re.sub(r"\r(?=\n|\Z)", "^M", hunk) if len(set(_ENDS.findall(hunk))) > 1 else hunk
        for hunk in re.split(r"(?m)^(?=@@ )", text)
    )


def _names(names: list[str], width: int) -> list[str]:
    return shortened([line for name in names for line in folded(name.replace("\n", "\\n"), width, "  ")], NAMES, width)
