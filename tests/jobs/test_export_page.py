"""The job: "show my colleague how the discount was fixed": a session with edits, a refused call and a compaction is
exported as a page, and the page is opened in a browser where there is one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from program.stage import MODEL, Stage, calls, stage
from programs import need

from nexus_cli.reports.page.chart import LAYERS

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
    if "The rate is subtracted." in str(body["messages"]):  # a summary stands for what was read
        last = calls(("read_file", {"path": "long5.txt"}))
        return {"text": "All six are read."} if said.startswith("5 line") else last
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


class Page(HTMLParser):
    """The parts of a page that could run, load or lead somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [found for name, found in self.tags if name == tag]


def exported(place: Stage, name: str, *more: str) -> str:
    done = place.run("export", "--html", "-o", name, *more)
    assert done.status == 0 and not done.stdout and name in done.told[0], done
    return (place.folder / name).read_text()


def test_the_page_tells_the_session_and_runs_and_loads_nothing(place: Stage) -> None:
    text = exported(place, "page.html")
    page = Page(text)
    ids = [str(found["id"]) for _, found in page.tags if "id" in found]
    assert len(ids) == len({*ids})
    assert not {"script", "link", "iframe", "object", "form", "base", "audio", "video"} & {tag for tag, _ in page.tags}
    assert not [name for _, found in page.tags for name in found if name.startswith("on") or name in ("src", "style")]
    policy = next(one["content"] for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none';") and "script-src" not in policy
    links = [(str(one["href"]), one.get("rel")) for one in page.all("a")]
    outside = [(href, rel) for href, rel in links if not href.startswith("#")]
    assert outside == [("https://example.org/a?b=1&c=2", "noreferrer"), ("https://example.org/x.png", "noreferrer")]
    assert {href[1:] for href, _ in links if href.startswith("#")} <= {*ids, "closed"}, "each link leads somewhere"
    assert "&lt;script&gt;alert(&quot;inert&quot;)&lt;/script&gt;" in text and "<strong>added</strong>" in text
    assert '<span class="gd">-    return sum(prices) * (1 + rate)</span>' in text
    assert "refused</span>" in text and "the call writes outside the project" in text
    assert KEY not in text and KEY in exported(place, "raw.html", "--raw")
    markdown = place.run("export", "--markdown").stdout.decode()
    assert KEY not in markdown and "my key is [redacted]" in markdown
    assert KEY in place.run("export", "--markdown", "--raw").stdout.decode()
    assert text == exported(place, "again.html"), "two exports of one session are equal"


def test_its_figures_are_those_of_nexus_context(place: Stage) -> None:
    text = exported(place, "page.html")
    panels = text.split('<section class="request">')[1:]
    assert text.count("The chart does not show 1 request for workers, summaries and similar work.") == 1
    rewritten = [at for at, panel in enumerate(panels, 1) if "rewritten before this request: compaction" in panel]
    assert rewritten and 'class="rewrite"' in text and 'class="drop"' in text and 'class="cost"' in text
    session = place.run("sessions", "list", "--all", "--json").result["sessions"][0]["id"]
    for step in (1, rewritten[0], len(panels)):
        report = place.run("context", "--session", session, "--step", str(step), "--json").result
        cells = re.findall(r'<th scope="row">[^<]*</th><td>([\d,]+)</td>', panels[step - 1])
        used = report["budget"]["used"]
        assert [int(cell.replace(",", "")) for cell in cells] == [used[name] for name in LAYERS], step
        left = [drop["id"] for drop in report["drops"] if not drop["back"]]
        assert re.findall(r'href="#drop-(d\d+)"', panels[step - 1]) == left[::-1][:6], step
    assert "in a summary" in panels[rewritten[0] - 1]


@pytest.mark.parametrize(("width", "theme"), [(1280, "dark"), (768, "light"), (360, "dark")])
def test_a_browser_shows_it_in_the_width_of_the_screen(place: Stage, width: int, theme: str) -> None:
    need("chromium")
    exported(place, "page.html")
    colours = f"--blink-settings=preferredColorScheme={0 if theme == 'dark' else 1}"
    (place.folder / "frame.html").write_text(
        f"<iframe src='page.html#r9' style='width:{width}px;height:900px' onload='"
        'const page = this.contentDocument, shown = page.querySelector("i:target + .request");'
        "document.title = [page.documentElement.scrollWidth, getComputedStyle(shown).display, "
        'getComputedStyle(page.querySelector("i + .request")).display, '
        'getComputedStyle(page.body).backgroundColor].join("|")\'></iframe>'
    )
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--dump-dom", colours)
    home = f"--user-data-dir={place.home}/browser"
    done = subprocess.run(
        ("chromium", *options, home, "--virtual-time-budget=9000", f"file://{place.folder}/frame.html"),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found, done
    wide, shown, hidden, paper = found[1].split("|")
    assert int(wide) <= width and (shown, hidden) == ("block", "none")
    assert paper == ("rgb(23, 24, 28)" if theme == "dark" else "rgb(253, 252, 250)")
