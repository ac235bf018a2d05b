"""Files that go along with a message: which words are mentions, and what becomes of what they name."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from images import png
from project_files import write_files
from search import sample
from tools.documents import make_notebook, make_pdf

from nexus_cli.core.attachment import AttachedFile
from nexus_cli.core.errors import NexusError
from nexus_cli.core.image_check import MAX_BYTES
from nexus_cli.sections.project_outline import LANGUAGES
from nexus_cli.tools import documents
from nexus_cli.ui.input import attached_files, piped
from nexus_cli.ui.input.attached_files import Mentions, quote_mention, read_attachment, read_mentions

PNG = png()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_files(tmp_path, {"src/a.py": "print(1)\n", "a b.txt": "spaced\n", "shot.png": PNG})
    return tmp_path


def block(name: str, text: str) -> str:
    return f'<file path="{name}">\n{text}\n</file>'


@pytest.mark.parametrize(
    "text",
    ["@src/a.py", "see @src/a.py, please", "(@src/a.py)", "is it @src/a.py?", "**@src/a.py**", "a\n@src/a.py\nb"],
)
def test_a_path_behind_an_at_sign_is_attached_whatever_stands_around_it(folder: Path, text: str) -> None:
    record = AttachedFile("src/a.py", "text", 9, 1, 1)
    assert read_mentions(text, folder) == Mentions([block("src/a.py", "print(1)")], files=[record])


@pytest.mark.parametrize("text", ['@"a b.txt"', 'see @"a b.txt".', '@"a b.txt'])
def test_a_path_with_spaces_stands_in_quotes(folder: Path, text: str) -> None:
    assert read_mentions(text, folder).blocks == [block("a b.txt", "spaced")]


@pytest.mark.parametrize(
    "text",
    ["me@src", "@property", "@media", "@", "@@src", "@ src/a.py", "@...", "x/@src", '@"missing"', "`@", "@/", "@//"],
)
def test_what_names_nothing_stays_words(folder: Path, text: str) -> None:
    assert read_mentions(text, folder) == Mentions()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("@nofile.txt what", "nofile.txt"),
        ("look at @missing/dir.d, please", "missing/dir.d"),
        ("@src/mian.py", "src/mian.py"),
        ("see @src/b.py:3-5, please", "src/b.py"),
        ("@main.go:12", "main.go"),
        ("@./x", "./x"),
        ("@../no/where", "../no/where"),
        ("@/no/where", "/no/where"),
        ("@.github/workflows/ci.yml", ".github/workflows/ci.yml"),
        ("(@src/b.py)", "src/b.py"),
        ('@"no such.md"', "no such.md"),
        ("@~/nowhere/at.all", "~/nowhere/at.all"),
        ("@Cargo.lock", "Cargo.lock"),
        ("@go.mod", "go.mod"),
        ("@Makefile", "Makefile"),
        *((f"@a{suffix}", f"a{suffix}") for suffix in LANGUAGES),
    ],
)
def test_what_looks_like_a_path_and_names_nothing_is_missing(folder: Path, text: str, missing: str) -> None:
    assert read_mentions(text, folder) == Mentions(missing=[missing])


@pytest.mark.parametrize(
    "text",
    [
        *("me@x.org", "@app.get('/')", "@functools.lru_cache", "@v1.2.3", "@media (x)", "@pytest.fixture", "@you: hi"),
        *("@localhost:8080/api", "@org/image:1.2", "@b.py:1234567890", "@src:8080", "@src:8080, @src:3-5"),
        *("@example.com", "@example.com:8080", "@example.com/index.html", "user@host:22", "git@github.com:a/b"),
        *("@github.com/a/b.git", "@team", "@org/team", "@types/node", "@types/node@18.0.0", "@angular/core:17"),
        *("@patch(pkg/mod.attr)", "@vue/cli@5.0/lib/a.js", '-d @"$dir/x.json"', "-d @a/${name}.json"),
        *("@app.route", "@pytest.mark.parametrize", "@10.0.0.1/24", "//@ts-ignore", "@user@mastodon.social"),
    ],
)
def test_addresses_and_decorators_are_not_missing_files(folder: Path, text: str) -> None:
    assert read_mentions(text, folder) == Mentions()


def test_what_goes_along_is_named_with_its_size(folder: Path) -> None:
    (folder / "long.txt").write_text("a line\n" * 1200)
    found = read_mentions('@long.txt @src @shot.png @"a b.txt"', folder)
    assert found.along == ("long.txt, 1,200 lines", "src, 1 name", "shot.png, an image", "a b.txt, 1 line")


def test_an_empty_file_is_named_as_such(folder: Path) -> None:
    (folder / "empty.txt").write_text("")
    assert read_mentions("@empty.txt", folder).along == ("empty.txt, empty",)


def test_an_image_becomes_a_part(folder: Path) -> None:
    found = read_mentions("what is on @shot.png", folder)
    assert found.blocks == [] and [(p.media_type, p.data, p.name) for p in found.parts] == [
        ("image/png", PNG, "shot.png")
    ]


def test_a_folder_becomes_a_short_listing(folder: Path) -> None:
    assert read_mentions("@src", folder).blocks == ['<folder path="src">\na.py\n</folder>']
    many = folder / "many"
    many.mkdir()
    for number in range(205):
        (many / f"{number:03}").write_text("")
    (many / "000d").mkdir()
    lines = read_mentions("@many/", folder).blocks[0].splitlines()
    assert len(lines) == 203 and lines[2] == "000d/" and lines[-2] == "... and 6 more"


def test_the_same_file_is_attached_once_however_it_is_named(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "src" / "a.py")
    assert len(read_mentions(f"@src/a.py @./src/a.py @{folder}/src/a.py @link", folder).blocks) == 1


def test_home_and_absolute_paths_are_followed(folder: Path, _isolated: Path) -> None:
    (_isolated / "mine.txt").write_text("home\n")
    assert read_mentions("@~/mine.txt", folder).blocks == [block("~/mine.txt", "home")]
    assert read_mentions(f"@{folder}/src/a.py", Path("/")).blocks == [block(f"{folder}/src/a.py", "print(1)")]


def test_names_are_escaped_as_for_attached_files(folder: Path) -> None:
    (folder / 'q"&.txt').write_text("x\n")
    assert read_mentions('@"q\\"&.txt"', folder).blocks == [block("q&quot;&amp;.txt", "x")]


def test_what_cannot_be_read_is_told_and_the_rest_goes_along(folder: Path) -> None:
    (folder / "binary").write_bytes(b"\0\xff\x80" * 50)
    found = read_mentions("@binary and @src/a.py", folder)
    assert found.blocks == [block("src/a.py", "print(1)")]
    assert len(found.notices) == 1 and "binary" in found.notices[0] and "not attached" in found.notices[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_a_file_without_permission_is_told(folder: Path) -> None:
    (folder / "src" / "a.py").chmod(0)
    found = read_mentions("@src/a.py", folder)
    assert found.blocks == [] and "Permission denied".lower() in found.notices[0].lower()


def test_a_pipe_or_a_device_is_never_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert read_mentions("@pipe @/dev/zero @/dev/null", folder) == Mentions()


def test_what_is_beyond_the_hard_limit_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "MAX_INPUT", 1000)
    (folder / "long.txt").write_text("x" * 1500)
    with open(folder / "shot.png", "ab") as file:
        file.truncate(MAX_BYTES + 1)
    found = read_mentions("@long.txt @shot.png", folder)
    assert found.uncounted == 500 and len(found.blocks[0]) < 1100 and found.parts == []
    assert len(found.notices) == 2


def test_a_file_that_is_not_utf_8_is_read_and_told(folder: Path) -> None:
    (folder / "old.txt").write_bytes("Größe und Übermaß, schöne Grüße\n".encode("latin-1") * 20)
    found = read_mentions("@old.txt", folder)
    assert "Größe und Übermaß" in found.blocks[0] and "not UTF-8" in found.notices[0]


def test_very_many_at_signs_are_looked_at_up_to_a_bound(folder: Path) -> None:
    found = read_mentions("@x " * 5000 + "@src/a.py", folder)
    assert found.blocks == [] and "first 1,000" in found.notices[0]


@given(st.text(st.characters(exclude_categories=[])))
def test_any_words_are_read_without_an_error(text: str) -> None:
    found = read_mentions(f"@{text} @{text}", Path("/nonexistent/folder"))
    assert isinstance(found, Mentions)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30))
def test_a_quoted_path_is_found_as_it_was_written(path: str) -> None:
    match = attached_files._MENTION.search(f"see {quote_mention(path)} now")
    assert match is not None
    plain = match["plain"]
    assert plain == path or (match["quoted"] or "").replace('\\"', '"').replace("\\\\", "\\") == path


def test_a_folder_cannot_be_attached_as_a_file(folder: Path) -> None:
    with pytest.raises(NexusError, match="this is a folder"):
        read_attachment(str(folder), "--file x")


@pytest.mark.parametrize("secret", [".netrc", ".ssh/id_rsa", ".env"])
def test_a_name_in_the_project_that_stands_for_credentials_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    kept = (folder if secret == ".env" else Path.home()) / secret
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text("login hunter2\n")
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder)
    (os.link if secret == ".env" else os.symlink)(kept, folder / "notes.md")
    with pytest.raises(NexusError, match="which holds credentials") as caught:
        read_attachment("notes.md", "--file notes.md")
    assert caught.value.hint == "Attach that file itself"
    found = read_mentions("@notes.md", folder)
    assert not found.blocks and "holds credentials" in found.notices[0]
    assert "hunter2" in read_attachment(str(kept), "--file").block, "what the person names itself is their choice"
    (folder / "plain.md").symlink_to(folder / "a b.txt")
    assert "spaced" in read_attachment("plain.md", "--file plain.md").block


def test_a_name_that_was_a_link_to_credentials_while_it_was_opened_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path.home() / ".netrc").write_text("login hunter2\n")
    (folder / ".git").mkdir()
    monkeypatch.chdir(folder)
    (folder / "notes.md").symlink_to(Path.home() / ".netrc")
    real_open = os.open

    def open_and_exchange(path: str, flags: int, *more: int, **options: int) -> int:
        opened = real_open(path, flags, *more, **options)
        if str(path).endswith("/notes.md"):
            (folder / "notes.md").unlink()
            (folder / "notes.md").write_text("harmless\n")
        return opened

    monkeypatch.setattr(os, "open", open_and_exchange)
    with pytest.raises(NexusError, match="it changed while it was opened"):
        read_attachment("notes.md", "--file notes.md")


def test_a_missing_file_is_answered_with_the_nearest_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "notes.md").write_text("x")
    with pytest.raises(NexusError) as raised:
        read_attachment("note.md", "--file note.md")
    assert raised.value.hint == "Did you mean notes.md?"
    assert read_mentions("see @note.md", folder).missing == ["note.md (did you mean notes.md?)"]
    (folder / unicodedata.normalize("NFD", "é.md")).write_text("decomposed")
    assert "decomposed" in read_mentions("see @é.md", folder).blocks[0]
    assert read_attachment("@notes.md", "--file").block == block("@notes.md", "x")


LINES = "".join(f"line {number}\n" for number in range(1, 6))


def part(name: str, lines: str, text: str) -> str:
    return f'<file path="{name}" lines="{lines}">\n{text}\n</file>'


@pytest.mark.parametrize("text", ["@b.txt:3-5", "see @b.txt:3-5, please", '@"b.txt:3-5"', "(@./b.txt:3-5)."])
def test_a_range_behind_a_name_attaches_these_lines(folder: Path, text: str) -> None:
    (folder / "b.txt").write_text(LINES)
    found = read_mentions(text, folder)
    name = "./b.txt" if "./" in text else "b.txt"
    assert found.blocks == [part(name, "3-5", "line 3\nline 4\nline 5")] and not found.notices
    assert [one.to_json() for one in found.files] == [
        {"path": name, "type": "text", "bytes": 20, "lines": [3, 5], "of": 5}
    ]
    assert found.along == (f"{name}:3-5, 3 lines",)


def test_one_number_behind_a_name_is_one_line_as_in_read_file(folder: Path) -> None:
    (folder / "b.txt").write_text(LINES)
    assert read_mentions("see @b.txt:4.", folder).blocks == [part("b.txt", "4-4", "line 4")]
    assert read_attachment("b.txt:4", "--file", str(folder)).block == part("b.txt", "4-4", "line 4")
    assert read_mentions("@src/b.py:3", folder).missing == ["src/b.py"]


def test_a_notebook_is_attached_as_its_cells(folder: Path) -> None:
    cells = [{"cell_type": "code", "source": [f"x = {n}\n"], "outputs": [{"text": ["out"]}]} for n in (1, 2)]
    (folder / "nb.ipynb").write_text(json.dumps({"cells": cells}))
    first, second = (f"[cell {n}, code]\nx = {n}\n\n[output]\nout" for n in (1, 2))
    whole = f'<file path="nb.ipynb" cells="1-2" of="2">\n{first}\n\n{second}\n</file>'
    assert read_attachment("nb.ipynb", "--file", str(folder)).block == whole
    some = f'<file path="nb.ipynb" cells="2-2" of="2">\n{second}\n</file>'
    assert read_mentions("see @nb.ipynb and @nb.ipynb:2-2", folder).blocks == [whole, some]
    with pytest.raises(NexusError, match="it has only 2 cells"):
        read_attachment("nb.ipynb:3", "--file", str(folder))
    (folder / "nb.ipynb").write_bytes(json.dumps({"cells": [{"source": "é"}]}, ensure_ascii=False).encode("cp1252"))
    assert read_attachment("nb.ipynb", "--file", str(folder)).notice == "nb.ipynb: is not UTF-8; decoded as cp1252"
    (folder / "nb.ipynb").write_text("words")
    assert read_mentions("see @nb.ipynb", folder).blocks == [block("nb.ipynb", "words")]


def test_a_notebook_that_is_cut_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MAX_TEXT", 10)
    (folder / "nb.ipynb").write_text(make_notebook([("code", "x = 1", []), ("code", "y = 2", [])]))
    found = read_mentions("see @nb.ipynb", folder)
    assert found.notices == ["nb.ipynb: stopped after cell 1: the text is too long"]
    assert found.blocks[0].endswith("[stopped after cell 1: the text is too long]\n</file>")


def test_ranges_of_one_file_go_along_each_once(folder: Path) -> None:
    (folder / "b.txt").write_text(LINES)
    found = read_mentions("@b.txt:1-1 @b.txt:5-5 @./b.txt:1-1 @b.txt", folder)
    assert found.along == ("b.txt:1, 1 line", "b.txt:5, 1 line", "b.txt, 5 lines")


def test_a_file_that_is_really_called_like_that_wins(folder: Path) -> None:
    (folder / "b.txt").write_text(LINES)
    (folder / "b.txt:3-5").write_text("mine\n")
    assert read_mentions("@b.txt:3-5", folder).blocks == [block("b.txt:3-5", "mine")]
    assert read_attachment("b.txt:3-5", "--file", str(folder)).block == block("b.txt:3-5", "mine")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("b.txt:4-6", "the file has 5 lines"),
        ("b.txt:5-3", "5-3 is not a valid line range"),
        ("b.txt:0-2", "0-2 is not a valid line range"),
        ("empty:1-1", "the file has 0 lines"),
        ("shot.png:1-2", "an image has no lines"),
        ("binary:1-2", "binary"),
    ],
)
def test_lines_that_are_not_there_are_one_clear_line(folder: Path, name: str, why: str) -> None:
    (folder / "b.txt").write_text(LINES)
    (folder / "empty").write_text("")
    (folder / "binary").write_bytes(b"\0\xff\x80" * 50)
    with pytest.raises(NexusError, match=why) as raised:
        read_attachment(name, f"--file {name}", str(folder))
    assert raised.value.kind == "usage" and "\n" not in str(raised.value)
    found = read_mentions(f"see @{name}", folder)
    assert not (found.blocks or found.parts or found.files)
    assert len(found.notices) == 1 and why in found.notices[0] and "not attached" in found.notices[0]


def test_a_range_of_a_missing_file_is_a_missing_file(folder: Path) -> None:
    assert read_mentions("@src/b.py:3-5", folder).missing == ["src/b.py"]
    with pytest.raises(NexusError, match="no such file"):
        read_attachment("src/b.py:3-5", "--file", str(folder))


def test_each_attachment_has_a_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piped, "MAX_INPUT", 1000)
    (folder / "long.txt").write_text("x\n" * 750)
    found = read_mentions("@src/a.py @src @shot.png @long.txt @long.txt:2-3", folder)
    assert [one.to_json() for one in found.files] == [
        {"path": "src/a.py", "type": "text", "bytes": 9, "lines": [1, 1]},
        {"path": "src", "type": "folder", "bytes": 34, "names": 1},
        {"path": "shot.png", "type": "image/png", "bytes": len(PNG)},
        {"path": "long.txt", "type": "text", "bytes": 1500, "lines": [1, 500]},
        {"path": "long.txt", "type": "text", "bytes": 3, "lines": [2, 3], "of": 500},
    ]
    assert found.uncounted == 500, "the chosen lines are whole"


@pytest.mark.matrix
def test_a_pdf_is_attached_as_its_text_and_pages_of_it_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # of an environment in the working folder's project nothing starts
    (folder / "paper.pdf").write_bytes(make_pdf(["first things", "second thoughts", "third rail"]))
    whole = read_attachment("paper.pdf", "paper.pdf", str(folder))
    assert whole.block.startswith('<file path="paper.pdf" pages="1-3" of="3">\n[page 1]\nfirst things')
    assert (whole.record.path, whole.record.type) == ("paper.pdf", "text") and whole.part is None
    assert "third rail" in read_mentions("see @paper.pdf", folder).blocks[0]
    some = read_attachment("paper.pdf:2-3", "paper.pdf:2-3", str(folder)).block
    assert "second thoughts" in some and "third rail" in some and "first things" not in some


@pytest.mark.matrix
def test_the_pdf_that_was_opened_is_the_one_that_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "paper.pdf").write_bytes(make_pdf(["of the project"]))
    (folder / "private.pdf").write_bytes(make_pdf(["of the person"]))
    read = os.pread

    def exchange(*given: int) -> bytes:
        (folder / "paper.pdf").unlink(missing_ok=True)
        (folder / "paper.pdf").symlink_to("private.pdf")
        return read(*given)

    monkeypatch.setattr(os, "pread", exchange)
    assert "of the project" in read_attachment("paper.pdf", "paper.pdf", str(folder)).block


@pytest.mark.parametrize(
    ("name", "why"),
    sample(
        [
            ("paper.pdf:4-9", "it has only 3 pages"),
            ("paper.pdf:3-1", "not a valid page range"),
            ("torn.pdf", "it is a PDF that cannot be read: it is broken: .*[)]$"),
        ],
        3,
    ),
)
def test_a_pdf_that_cannot_be_read_is_one_clear_line(
    folder: Path, name: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "paper.pdf").write_bytes(make_pdf(["one", "two", "three"]))
    (folder / "torn.pdf").write_bytes(b"%PDF-1.7\nnothing behind it")
    with pytest.raises(NexusError, match=why) as caught:
        read_attachment(name, name, str(folder))
    assert caught.value.kind == "usage"
