"""`/diff`: what changed in the working folder, as a unified diff."""

from __future__ import annotations

from nexus_cli.ui.reports.lines import Value, filled, folded, plural, shortened

LINES, NAMES = 1000, 50
"""Lines of a diff, and names of files, that are shown at most."""


def diff_text(value: Value, width: int) -> str:
    """The diff, then files that git does not track; without git the files that the session changed."""
    lines: list[str] = []
    if value["source"] != "git":
        why = str(value["why"])
        lines += filled(f"{why[:1].upper()}{why[1:]}: these are the files that this session changed.", width)
        return "\n".join([*lines, *(_names(value["files"], width) or ["  none"])])
    text = str(value["text"]).rstrip("\n")
    if text:
        lines += shortened(folded(text, width), LINES, width)
        if value.get("cut"):
            lines += filled(f"[the diff is larger than shown: {value['cut']}]", width)
    else:
        lines += filled("No changes to tracked files.", width)
    untracked = value.get("untracked", [])
    if untracked:
        lines += ["", *filled(f"{plural(len(untracked), 'untracked file')}:", width), *_names(untracked, width)]
    return "\n".join(lines)


def _names(names: list[str], width: int) -> list[str]:
    return shortened([line for name in names for line in folded(name.replace("\n", "\\n"), width, "  ")], NAMES, width)
