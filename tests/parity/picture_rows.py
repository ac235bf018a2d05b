"""The rows about pictures: files that the model reads, and what a session of the other program keeps; see `rows.py`."""

from __future__ import annotations

import base64

from images import png
from parity.rows import Call, Played, Row, Step, pictures
from tools.documents import make_notebook

SHOT = png()
DATA = base64.b64encode(SHOT).decode()
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
DRAWN = {"output_type": "display_data", "metadata": {}, "data": {"image/png": DATA, "text/plain": ["a figure"]}}
TREE: dict[str, str | bytes] = {"a.png": SHOT, "a.gif": GIF, "b.png": png(extra=1), "odd.png": "no picture\n"}
MORE = ("go on",)
ANSWER = "I see it."


def reads(*names: str) -> tuple[Step, ...]:
    return tuple(("Read", {"file_path": f"TREE/{name}"}) for name in names)


def is_seen(played: Played) -> bool:
    """Return True if the last request has the picture, in whatever form."""
    return DATA in played.requests[-1]


BOTH: tuple[Call, ...] = tuple(("Read", {"file_path": f"TREE/{name}"}) for name in ("a.png", "b.png"))
VIEW: Step = ("view_image", {"path": "TREE/a.png"})
PICTURE_ROWS = (
    Row("a picture that the model reads", pictures, TREE, reads("a.png")),
    Row("a picture of another kind", pictures, TREE, reads("a.gif")),
    Row("two pictures, one after the other", pictures, TREE, reads("a.png", "b.png")),
    Row("two pictures of one step", lambda played: sorted(pictures(played)), TREE, (BOTH,)),
    Row(
        "a file with the name of a picture",
        lambda played: (pictures(played), len(played.requests)),
        TREE,
        reads("odd.png"),
    ),
    Row(
        "the figures of a notebook",
        pictures,
        {"a.ipynb": make_notebook([("code", "draw()", [DRAWN])])},
        reads("a.ipynb"),
    ),
    Row("codex: a picture that the model looks at", is_seen, TREE, (VIEW,), peer="codex"),
    Row("import: a picture that the model read", pictures, TREE, (*reads("a.png"), ANSWER), then=MORE),
    Row("import: a picture that the person named", is_seen, TREE, (ANSWER,), prompt="look at @a.png", then=MORE),
    Row("codex: import: a picture that the model looked at", is_seen, TREE, (VIEW, ANSWER), peer="codex", then=MORE),
    Row(
        "export: a picture that the model read",
        pictures,
        TREE,
        (*reads("a.png"), ANSWER),
        then=MORE,
        exports=True,
        level="all",
    ),
)
