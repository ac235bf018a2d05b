"""`grep` and `glob`: the same fixed results whoever lists the files and whether `rg` helps or not."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import missing
from project_files import write_files
from search import sample

from nexus_cli.config.programs import find_program
from nexus_cli.tools import listing
from nexus_cli.tools.builtin import grep
from nexus_cli.tools.cancellable_thread import StopFlag
from nexus_cli.tools.files import ToolError
from nexus_cli.tools.listing import list_files
from nexus_cli.tools.patterns import PathPattern

REAL_RG = shutil.which("rg")
RG = {
    "none": None,
    "everything": '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; printf \'%s\\0\' "$@"\n',
    "refuses": "#!/bin/sh\nexit 2\n",
    "narrows": f"#!/bin/sh\n'''exec' '{sys.executable}' -IS \"$0\" \"$@\"\n' '''"
    + """
import re, sys
options, paths = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
case = re.IGNORECASE if "-i" in options else 0
given = [options[i + 1].replace("(?-u:", "(?:") for i, option in enumerate(options) if option == "-e"]
lines = re.compile("|".join(f"(?:{one})" for one in given).encode(), case | re.MULTILINE)
found = [path for path in paths if lines.search(open(path, "rb").read())]
sys.stdout.write("".join(path + chr(0) for path in found))
sys.exit(not found)
""",
}
if REAL_RG is not None:
    RG["real"] = REAL_RG
"""Stand-ins that keep the promise of `rg -l` (no file with a match is missing), and the real one where there is one."""


@pytest.fixture(params=["git", "folder"])
def listed(request: pytest.FixtureRequest) -> str:
    """Who lists the files."""
    return str(request.param)


@pytest.fixture
def tree(listed: str, desk: Any) -> Any:
    """A small project, with a repository or without."""
    desk.write("src/a.py", "import os\n\ndef first():\n    return 1  # todox\n")
    desk.write("src/b.py", "def second():\n    pass\n")
    desk.write("src/deep/c.txt", "Def upper\r\ndef crlf\r\n")
    desk.write("README", "def in readme")
    desk.write(".github/w.yml", "def: hidden\n")
    desk.write("build/out.py", "def ignored(): pass\n")
    desk.write("src/x.log", "def ignored\n")
    desk.write("src/keep.log", "def kept\n")
    desk.write(".gitignore", "build/\n*.log\n")
    desk.write("src/.gitignore", "!keep.log\n")
    desk.write("bin.dat", b"def \0 binary\n")
    desk.write("latin.txt", "def caf\xe9\n".encode("latin-1"))
    desk.write("wide.txt", "def wide\n".encode("utf-16"))
    (desk.project / "link.py").symlink_to("src/a.py")
    (desk.project / "out").symlink_to("/etc")
    if listed == "git":
        subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
        subprocess.run(["git", "add", "src/a.py"], cwd=desk.project, check=True)
    return desk


@pytest.fixture
def helped(helper: str, tree: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The project, searched with that kind of `rg`."""
    script = RG[helper]
    if helper == "real":
        assert script is not None
        target = tmp_path / "bin"
        target.mkdir()
        (target / "rg").symlink_to(script)
    elif script is not None:
        target = tmp_path / "bin"
        write_files(target, {"rg": script})
        (target / "rg").chmod(0o755)
    if script is not None:
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
        assert find_program("rg", tree.project) == str(tmp_path / "bin/rg")
    return tree


@pytest.mark.matrix
def test_a_program_in_the_project_is_never_started(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = desk.project / "was-here"
    for name in ("git", "rg"):
        desk.write(f"bin/{name}", f"#!/bin/sh\ntouch {mark}\n").chmod(0o755)
    (desk.project.parent / "door").symlink_to(desk.project / "bin")
    own = [desk.project / "bin", desk.project.parent / "door", ".", "bin", ""]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, own), os.environ["PATH"]]))
    monkeypatch.chdir(desk.project)
    assert desk.run("glob", pattern="**/*").success and desk.run("grep", pattern="touch").success
    assert not mark.exists()
    assert find_program("git", desk.project) not in (None, str(desk.project / "bin/git"))


ALL_DEF = """.github/w.yml
1:def: hidden

README
1:def in readme

latin.txt
1:def café

src/a.py
3:def first():

src/b.py
1:def second():

src/deep/c.txt
2:def crlf

src/keep.log
1:def kept

wide.txt
1:def wide"""


GREPS: list[tuple[dict[str, Any], str]] = [
    ({"pattern": "def"}, ALL_DEF),
    ({"pattern": "^def f.*:$"}, "src/a.py\n3:def first():"),
    ({"pattern": "lf$"}, "src/deep/c.txt\n2:def crlf"),
    (
        {"pattern": "DEF", "ignore_case": True, "glob": "*.txt", "path": "src"},
        "src/deep/c.txt\n1:Def upper\n2:def crlf",
    ),
    ({"pattern": "pass", "context": 1}, "src/b.py\n1-def second():\n2:    pass"),
    ({"pattern": "import|return", "path": "src/a.py"}, "src/a.py\n1:import os\n4:    return 1  # todox"),
    ({"pattern": "caf.", "path": "latin.txt"}, "latin.txt\n1:def café"),
    ({"pattern": "caf."}, "latin.txt\n1:def café"),
    ({"pattern": "(?<=def )first"}, "src/a.py\n3:def first():"),
    ({"pattern": r"\Adef second"}, "src/b.py\n1:def second():"),
    ({"pattern": "def", "path": "build"}, "build/out.py\n1:def ignored(): pass"),
    ({"pattern": "def", "path": "src/x.log"}, "src/x.log\n1:def ignored"),
    (
        {"pattern": "def", "glob": "src/**/*.{py,txt}", "limit": 2},
        "src/a.py\n3:def first():\n\nsrc/b.py\n1:def second():\n"
        "[the first 2 matches; there is 1 more: narrow the search or raise `limit`]",
    ),
    ({"pattern": "no such text"}, "no matches"),
    ({"pattern": "binary"}, "no matches"),
    ({"pattern": "root", "path": ".", "glob": "out/**"}, "no matches: none of 11 files matches `glob`"),
    ({"pattern": "café"}, "latin.txt\n1:def café"),
    ({"pattern": "café", "path": "latin.txt"}, "latin.txt\n1:def café"),
    ({"pattern": "cafe\u0301$"}, "latin.txt\n1:def café"),
    ({"pattern": "CAFÉ", "ignore_case": True, "glob": "*.py, *.{txt, c}"}, "latin.txt\n1:def café"),
    ({"pattern": "binary", "path": "bin.dat"}, "[bin.dat is binary: it was not searched]"),
]


@pytest.mark.parametrize(
    ("listed", "helper"), sample([*(("git", name) for name in RG), ("folder", "none"), ("folder", "narrows")], 7, 6)
)
def test_grep_gives_these_results_whoever_lists_and_helps(helped: Any, listed: str, helper: str) -> None:
    for arguments, output in GREPS if helper == "none" or (listed, helper) == ("git", "narrows") else GREPS[::3]:
        result = helped.run("grep", **arguments)
        assert (result.output, result.error) == (output, ""), arguments


@pytest.mark.matrix
@pytest.mark.parametrize("git", sample([True, False], 2))
def test_stored_keys_are_searched_only_where_they_are_asked_for(
    desk: Any, monkeypatch: pytest.MonkeyPatch, git: bool
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(desk.project / "home"))
    if git:
        subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
    for path in (desk.project / "home/data/keys", desk.project / "home/data.d"):
        write_files(path, {"A_KEY": "sk-one-two-three\n"})
    assert desk.run("glob", pattern="**/A_KEY").text == "home/data.d/A_KEY"
    for path in (".", "home"):
        found = desk.run("grep", pattern="sk-one", path=path).text
        assert "data.d/A_KEY" in found and "keys/A_KEY" not in found
    assert desk.run("grep", pattern="sk-one", path="home/data").text.startswith("no matches")
    assert "A_KEY" in desk.run("grep", pattern="sk-one", path="home/data/keys").text


def test_the_real_rg_was_among_those_who_helped() -> None:
    if REAL_RG is None:
        pytest.skip(missing("rg"))  # only stand-ins helped grep in the tests above
    assert RG["real"] == REAL_RG


def test_rg_is_asked_to_narrow_and_never_believed_for_odd_bytes(desk: Any) -> None:
    assert not [p for p in ("def", "a.b", r"\w+ \d{2,3}", "(?:a|b)c$", "[a-z_]+") if grep._DIALECT_SYNTAX.search(p)]
    others = ("(?i)a", "(?=a)", r"\Aa", r"\u00e9", "[a&&b]", "[[a]", r"(a)\1", "a\nb")
    assert [p for p in others if not grep._DIALECT_SYNTAX.search(p)] == []


def test_rg_never_reads_a_file_that_is_too_large(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run_walled(argv: list[str], **_: Any) -> Any:
        asked.extend(argv)
        return Mock(status=0, timed_out=False, uncounted=0, output=b"./a\0")

    monkeypatch.setattr(grep, "run_walled", run_walled)
    desk.write("a", "x")
    desk.write("b", "y")
    with desk.write("dump", "").open("wb") as file:
        file.truncate(10 << 30)
    arguments = grep.GrepArguments("x")
    assert grep._narrow_by_rg("rg", desk.project, ["a", "b", "dump"], arguments, StopFlag()) == ["a", "dump"]
    assert asked[asked.index("--") + 1 :] == ["./a", "./b"], "reading 10 GiB would take longer than the search"


@pytest.mark.matrix
def test_grep_shows_the_gap_between_two_places(desk: Any) -> None:
    desk.write("a", "x\n1\n2\n3\n4\nx\n")
    assert desk.run("grep", pattern="x", context=1).output == "a\n1:x\n2-1\n--\n5-4\n6:x"


@pytest.mark.matrix
def test_grep_shows_a_long_line_around_its_match(desk: Any) -> None:
    desk.write("a", "a" * 5000 + "NEEDLE" + "b" * 5000)
    output = desk.run("grep", pattern="NEEDLE").output
    assert output.startswith("a\n1:[4900 characters...]aaa")
    assert output.endswith("bbb[...4706 characters]")
    assert "NEEDLE" in output


@pytest.mark.matrix
@pytest.mark.parametrize("pattern", sample(["(", "[a", "*", "(?P<n>a)(?P<n>b)", "a{99999999999999999999}"], 3))
def test_a_pattern_that_is_none_is_an_error_with_its_cause(desk: Any, pattern: str) -> None:
    desk.write("a", "x")
    assert desk.run("grep", pattern=pattern).error.startswith("`pattern` is not a Python regular expression: ")


@pytest.mark.matrix
def test_a_pattern_that_takes_for_ever_is_stopped(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a", "a" * 60 + "b")
    monkeypatch.setattr(grep, "SECONDS", 0.5)
    assert "simplify the pattern" in desk.run("grep", pattern="(a+)+$").error


@pytest.mark.matrix
async def test_a_search_can_be_cancelled(desk: Any) -> None:
    desk.write("a", "a" * 60 + "b")

    task = asyncio.create_task(desk.call("grep", pattern="(a+)+$"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.matrix
def test_a_module_in_the_working_folder_is_not_imported(desk: Any) -> None:
    for name in ("json.py", "re.py", "os.py"):
        desk.write(name, f"open({str(desk.project / 'ran')!r}, 'w')\nneedle = 1\n")
    assert desk.run("grep", pattern="needle").output.count("needle") == 3
    assert not (desk.project / "ran").exists()


@pytest.mark.matrix
def test_a_repository_cannot_name_a_command_that_listing_runs(desk: Any) -> None:
    subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
    desk.write("a", "x")
    hook = desk.write("hook", f"#!/bin/sh\ntouch {desk.project}/ran\n")
    hook.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(hook)], cwd=desk.project, check=True)
    assert desk.run("grep", pattern="x", glob="a").output == "a\n1:x"
    assert not (desk.project / "ran").exists()


@pytest.mark.matrix
def test_names_with_newlines_and_odd_bytes_do_no_harm(desk: Any) -> None:
    desk.write("new\nline", "x\n")
    (desk.project / os.fsdecode(b"odd\xff")).write_text("x\n")
    output = desk.run("grep", pattern="x").output
    output.encode()
    assert output.count("1:x") == 2
    desk.run("glob", pattern="*").output.encode()


@pytest.mark.parametrize(
    ("arguments", "output"),
    sample(
        [
            ({"pattern": "*.py"}, "link.py\nsrc/a.py\nsrc/b.py"),
            ({"pattern": "./*.py"}, "link.py"),
            ({"pattern": "src/**"}, "src/.gitignore\nsrc/a.py\nsrc/b.py\nsrc/deep/c.txt\nsrc/keep.log"),
            ({"pattern": "**/*.{txt,yml}"}, ".github/w.yml\nlatin.txt\nsrc/deep/c.txt\nwide.txt"),
            ({"pattern": "*.py", "path": "src"}, "src/a.py\nsrc/b.py"),
            ({"pattern": "[ab].py", "path": "./src/"}, "./src/a.py\n./src/b.py"),
            ({"pattern": "*.py", "path": "build"}, "build/out.py"),
            ({"pattern": "*.nothing"}, "no files"),
        ],
        4,
        1,
    ),
)
def test_glob_lists_by_path(tree: Any, arguments: dict[str, Any], output: str) -> None:
    assert tree.run("glob", **arguments).output == output


def test_glob_says_how_many_more_there_are(desk: Any) -> None:
    for i in range(510):
        desk.write(f"{i:03}", "")
    output = desk.run("glob", pattern="*").output.split("\n")
    assert output[499:] == ["499", "[10 more: narrow the pattern or `path`]"]


@pytest.mark.parametrize("pattern", ["/etc/*", "../*", "a/../../b", "~/x", "{/etc,a}/*"])
def test_a_pattern_cannot_leave_its_folder(desk: Any, pattern: str) -> None:
    assert "name its folder in `path`" in desk.run("glob", pattern=pattern).error
    assert "name its folder in `path`" in desk.run("grep", pattern="x", glob=pattern).error


def test_a_repository_inside_a_repository_is_listed_too(desk: Any) -> None:
    for folder in (".", "vendor/inner"):
        (desk.project / folder).mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q"], cwd=desk.project / folder, check=True)
    desk.write("vendor/inner/x.py", "")
    desk.write("vendor/inner/.gitignore", "*.o\n")
    desk.write("vendor/inner/x.o", "")
    assert desk.run("glob", pattern="*").output == "vendor/inner/.gitignore\nvendor/inner/x.py"


@pytest.mark.matrix
def test_files_below_a_name_that_became_a_link_are_not_looked_at(desk: Any) -> None:
    desk.write("../outside/cred.txt", "secret\n")
    desk.write("../outside/inner/deep.txt", "secret\n")
    desk.write("d/cred.txt", "old\n")
    desk.write("d/inner/deep.txt", "old\n")
    desk.write("kept/cred.txt", "secret\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=desk.project, check=True)
    shutil.rmtree(desk.project / "d")
    (desk.project / "d").symlink_to("../outside")
    assert desk.run("grep", pattern="secret").output == "kept/cred.txt\n1:secret"
    assert desk.run("glob", pattern="*.txt").output == "kept/cred.txt"


@pytest.mark.matrix
def test_a_repository_behind_a_link_is_not_listed(desk: Any) -> None:
    for folder in (desk.project, desk.project / "d/inner", desk.project.parent / "outside/inner"):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        (folder / "x.txt").write_text("secret\n")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run(["git", *identity, *command], cwd=desk.project / "d/inner", check=True)
    subprocess.run(["git", "add", "d/inner"], cwd=desk.project, check=True, capture_output=True)
    shutil.rmtree(desk.project / "d")
    (desk.project / "d").symlink_to("../outside")
    assert desk.run("glob", pattern="*.txt").output == "x.txt"


@pytest.mark.matrix
def test_temporary_files_of_ours_are_never_listed(tree: Any) -> None:
    tree.write("src/.nexus-0123456789abcdef", "def draft\n")
    tree.write("src/.nexus-0123", "")
    assert tree.run("glob", pattern=".nexus-*").output == "src/.nexus-0123"
    assert "draft" not in tree.run("grep", pattern="def").output


@pytest.mark.matrix
def test_folders_nested_deeper_than_the_interpreter_recurses_are_listed(desk: Any) -> None:
    depth = sys.getrecursionlimit() + 50
    place = os.open(desk.project, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("a", dir_fd=place)
        inner = os.open("a", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(os.open("x.py", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)
    try:
        assert desk.run("glob", pattern="*.py").output == "a/" * depth + "x.py"
    finally:
        # What clears the temporary folders recurses too.
        subprocess.run(["rm", "-rf", desk.project / "a"], check=True)


def test_without_git_folders_of_tools_are_left_out_unless_they_are_asked_for(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("src/a.py", "node_modules/b/c.js", "env/pyvenv.cfg", "env/bin/x", ".git/HEAD"):
        desk.write(name, "")
    monkeypatch.setattr(listing, "find_program", lambda *_: None)
    found = [list_files(desk.project / folder, desk.project, StopFlag()) for folder in ("", "node_modules")]
    assert found == [["src/a.py"], ["b/c.js"]]


@pytest.mark.matrix
def test_a_repository_in_a_folder_without_one_is_listed_too_and_one_that_git_cannot_read(desk: Any) -> None:
    subprocess.run(["git", "init", "-q", "own"], cwd=desk.project, check=True)
    desk.write("broken/.git", "gitdir: /nowhere")
    for name in ("own/x.py", "own/x.o", "broken/y.py", "z.o"):
        desk.write(name, "")
    desk.write("own/.gitignore", "*.o\n")
    assert desk.run("glob", pattern="*").output == "broken/y.py\nown/.gitignore\nown/x.py\nz.o"


def test_files_of_a_broken_repository_are_listed_all_the_same(desk: Any) -> None:
    desk.write(".git/HEAD", "nonsense")
    desk.write("a", "")
    assert list_files(desk.project, desk.project, StopFlag()) == ["a"]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "a/b/c.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("a/**/*.py", "a/x/y/c.py", True),
        ("**", "a/b", True),
        ("**/b/**", "a/b/c", True),
        ("a/", "a/b/c", True),
        ("a/", "a", False),
        ("[]", "[]", True),
        ("[]x]", "]", True),
        ("[a&&b]", "&", True),
        ("a[!]", "ab", False),
        ("a[.-9]b", "a1b", True),
        ("a[.-9]b", "a/b", False),
        ("a/**", "a", False),
        ("*.{c,h}", "x/y.h", True),
        ("{a,b{c,d}}/x", "bd/x", True),
        ("{a}", "{a}", True),
        ("[!a]", "b", True),
        ("?.py", "ab.py", False),
        ("A.py", "a.py", False),
        ("app/[slug]/page.tsx", "app/[slug]/page.tsx", True),
        ("app/[slug]/*.tsx", "app/[slug]/page.tsx", True),
        ("app/[slug]/*.{ts, tsx}", "app/[slug]/page.tsx", True),
        ("app/[...all]/**", "app/[...all]/x/y.ts", True),
        ("app/(shop)/p?.{a}", "app/(shop)/p?.{a}", True),
        ("{a,b}.txt", "{a,b}.txt", True),
        ("*.h, *.cpp", "x/a.cpp", True),
        ("*.h *.cpp", "a.h", True),
        ("*.rs; *.go", "a.rs", True),
        ("*.rs|*.go", "b.go", True),
        ("*.h,*.{c,cpp}", "a.cpp", True),
        ("my file.txt", "my file.txt", True),
        ("cafe\u0301.txt", "caf\u00e9.txt", True),
    ],
)
def test_patterns_mean_what_people_expect(pattern: str, path: str, fits: bool) -> None:
    assert PathPattern(pattern).select([path]) == [path] * fits


def test_a_pattern_longer_than_any_path_matches_nothing_and_takes_no_time() -> None:
    assert PathPattern("[!" * 100_000).select(["a"]) == []


def test_a_name_that_is_there_is_no_pattern() -> None:
    there = ["a/[id]/p.ts", "a/i/p.ts", "b?.md", "bc.md", "x, y.md", "y.md"]
    asked = ("a/[id]/p.ts", "a/[id]/*", "b?.md", "x, y.md", "[b]?.md")
    found = [["a/[id]/p.ts"]] * 2 + [["b?.md"], ["x, y.md"], ["b?.md", "bc.md"]]
    assert [PathPattern(pattern).select(there) for pattern in asked] == found


@pytest.mark.parametrize("pattern", ["", "  ", ", ,", "{}", "[z-a].py", "a\0.py"])
def test_a_pattern_that_can_match_nothing_is_an_error(desk: Any, pattern: str) -> None:
    desk.write("a.py", "x\n")
    assert "the pattern" in desk.run("glob", pattern=pattern).error
    assert "the pattern" in desk.run("grep", pattern="x", glob=pattern).error
    assert "must not be empty" in desk.run("grep", pattern="").error


def test_a_filter_that_the_named_file_does_not_fit_is_no_match_that_says_so(desk: Any) -> None:
    desk.write("b.go", "needle\n")
    assert "does not match" in desk.run("grep", pattern="needle", path="b.go", glob="*.rs").output
    assert "needle" in desk.run("grep", pattern="needle", path="b.go", glob="*.rs, *.go").output


def test_glob_of_an_ignored_file_by_its_name_finds_it_and_of_a_folder_says_so(tree: Any) -> None:
    assert tree.run("glob", pattern="src/x.log").output == "src/x.log"
    assert "`src/**` lists" in tree.run("glob", pattern="src").error
    assert tree.run("glob", pattern="out/passwd").output == "no files"


@pytest.mark.parametrize("encoding", sample(["utf-16", "cp1250", "cp1252", "utf-8-sig", "koi8_r", "gb18030"], 3))
def test_grep_finds_what_read_file_shows_in_any_encoding(desk: Any, encoding: str) -> None:
    texts = {
        "koi8_r": "Правила проекта: всегда запускать тесты",
        "gb18030": "请先阅读说明文件，然后运行测试。",
        "cp1250": "Właściwości pliku są określone, użytkownik może je zmienić",
    }
    text = texts.get(encoding, "Règles : le café préféré de l'élève, créé à Noël")
    desk.write("a.txt", f"one\r\n{text}\r\n".encode(encoding))
    assert text in desk.run("read_file", path="a.txt").output
    assert desk.run("grep", pattern=text[4:14]).output == f"a.txt\n2:{text}"


def test_braces_are_bounded() -> None:
    with pytest.raises(ToolError, match="braces"):
        PathPattern("{a,b}" * 30)


def test_a_hostile_pattern_takes_no_exponential_time() -> None:
    assert not PathPattern("**/" + "*a" * 40 + "/**/" * 20 + "z").select(["/".join(["a" * 60] * 40)])


@pytest.mark.matrix
def test_a_long_list_of_patterns_is_taken_apart_in_one_pass() -> None:
    parts = "*.py" + ", " * 100_000 + "a}"
    assert PathPattern(parts).select(["src/a.py"])
    assert PathPattern("{a, b").select(["{a, b"])


@pytest.mark.matrix
def test_what_was_found_is_counted_for_the_person(desk: Any) -> None:
    for name in ("a", "b", "c"):
        desk.write(f"{name}.txt", f"one {name}\ntwo {name}\none more\n")
    desk.write("odd.bin", b"one \0 two")

    def counted(tool: str, **arguments: Any) -> tuple[dict[str, int], bool]:
        result = desk.run(tool, **arguments)
        assert "\0" not in result.output
        return dict(result.counts), result.more

    assert counted("grep", pattern="one") == ({"matches": 6, "files": 3}, False)
    assert counted("grep", pattern="one", limit=4) == ({"matches": 4, "files": 2}, True)
    assert counted("grep", pattern="one", path="a.txt") == ({"matches": 2, "files": 1}, False)
    assert counted("grep", pattern="three") == ({"matches": 0, "files": 0}, False)
    assert counted("grep", pattern="one", glob="*.py") == ({"matches": 0}, False)
    assert counted("grep", pattern="one", path="odd.bin") == ({}, False)
    assert counted("glob", pattern="*.txt") == ({"files": 3}, False)
    assert counted("read_file", path="a.txt") == ({"lines": 3}, False)
    assert counted("read_file", path="a.txt", offset=2) == ({"lines": 2, "first": 2, "total": 3}, False)
    assert counted("read_file", path=".") == ({"entries": 4}, False)
    assert counted("write_file", path="new.txt", content="x\ny") == ({"lines": 2}, False)


NAMES = st.sampled_from(["a.py", "b.log", "c", "build", "Ä.txt", "a b", ".x", "z.py"])
RULES = st.sampled_from(
    ["*.py", "build/", "!a.py", "/c", "**/c", "a b", "*", "!*/", "build/*", "!build/c", "[ab].*", ".x", "c/"]
)
LINES = st.sampled_from(
    ["def x", "DEF", "x = 1\r", "caf\xe9", "cafe\u0301", "", "a" * 600 + "def", "\x1cdef", "tab\tx"]
)
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join),
    st.tuples(st.lists(LINES, max_size=4).map("\n".join), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])),
    max_size=10,
)
IGNORED = st.dictionaries(st.sampled_from([".", "build", "c", "c/build"]), st.lists(RULES, max_size=4), max_size=3)
PATTERNS = st.sampled_from(
    ["def", "x", "caf.", "^x", r"\w+\t", "1$", "é", "(?i)def", r"\bdef\b", "[^a]x", "a{300}", "."]
)


@pytest.mark.matrix
@pytest.mark.skipif(REAL_RG is None or shutil.which("git") is None, reason="needs rg and git")
@settings(max_examples=settings().max_examples // 2)
@given(TREES, IGNORED, PATTERNS, st.booleans(), st.sampled_from([1, 3, 100]))
def test_any_tree_gives_the_same_with_and_without_rg_and_git(
    new_desk: Callable[[], Any],
    files: dict[str, tuple[str, str]],
    ignored: dict[str, list[str]],
    pattern: str,
    ignore_case: bool,
    limit: int,
) -> None:
    desk = new_desk()
    for name, (text, encoding) in files.items():
        with suppress(OSError):  # a name of it is a folder's or a file's already
            desk.write(name, text.encode(encoding, "replace"))
    for folder, rules in ignored.items():
        with suppress(OSError):
            desk.write(f"{folder}/.gitignore", "".join(f"{rule}\n" for rule in rules))
    asked = {"pattern": pattern, "ignore_case": ignore_case, "limit": limit}
    found = {}
    for has_git in (False, True):
        if has_git:
            subprocess.run(["git", "init", "-q"], cwd=desk.project, check=True)
        for has_rg in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(grep, "find_program", lambda *_, rg=REAL_RG if has_rg else None: rg)
                found[has_git, has_rg] = desk.run("grep", **asked), desk.run("glob", pattern="**").output
    assert len({(one.text, str(one.counts), listed) for one, listed in found.values()}) == 1, found
