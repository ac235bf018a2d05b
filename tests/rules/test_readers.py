"""Lines that bash computes: free where everything in them is understood and only reads, and never otherwise."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from project_files import write_files
from rules.rows import TOOLS, decide, read_rows
from search import sample

from nexus_cli.core.limits import Decision
from nexus_cli.rules.decide import decide_command
from nexus_cli.rules.rule_set import RuleSet, parse_rule

NONE = RuleSet()
LEVELS: tuple[str, ...] = ("ask", "edit", "auto")
FILES = ("README.md", "setup.py", "src/a.py", "tests/a.py", "names.txt", "a.txt", "b.txt", "x.tar", "x.tgz")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("lines"))


def make_project(folder: Path) -> Path:
    """Return a repository with the files that the rows name."""
    write_files(folder, dict.fromkeys(FILES, "def main():\nfoo,1\n"))
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "add", "-A"], check=True)
    return folder


def asked(lines: list[str], folder: Path) -> list[str]:
    found = ((line, decide(line, folder, "ask", NONE)) for line in lines)
    return [f"{line}: {one.why}" for line, one in found if one.decision != "allow"]


def test_a_listed_name_may_stand_in_a_text(project: Path) -> None:
    assert not asked(['for f in $(git ls-files); do echo "== $f"; head -2 "$f"; done', 'echo "a $(ls) b"'], project)


@pytest.mark.matrix
def test_of_harmless_lines_at_most_one_in_fifty_asks(project: Path) -> None:
    rows = read_rows("harmless.tsv")
    wrong = asked([line for line, expected in rows if expected == "allow"], project)
    assert not wrong, "\n".join(wrong)
    asks = asked([line for line, _ in rows], project)
    assert len(rows) == 231 and len(asks) <= len(rows) / 50, asks


@pytest.mark.matrix
def test_each_computed_line_gets_its_decision(project: Path) -> None:
    rows = read_rows("computed.tsv")
    found = {line: decide(line, project, "ask", NONE) for line, _ in rows}
    wrong = [f"{line}: {found[line].why}" for line, expected in rows if found[line].decision != expected]
    assert not wrong and len(rows) > 200, "\n".join(wrong)
    assert {one.profile for one in found.values() if one.decision == "allow"} == {"read"}


@pytest.mark.parametrize(
    "line", sample(["date 0101000026", "date -s now", "date -u 0101", "date --set=now", "date $x", "date -us x"], 3)
)
def test_a_date_that_may_set_the_clock_is_no_reader(project: Path, line: str) -> None:
    for whole in (line, f"echo x | xargs {line}", f"find . -exec {line} ;", "ls | xargs date", f"x=0101; {line}"):
        assert decide(whole, project, "ask", NONE).decision == "ask", whole
        assert decide(whole, project, "auto", NONE).profile == "write", whole
    allowed = RuleSet((parse_rule("allow", "bash(date *)", TOOLS),))
    assert decide(line, project, "ask", allowed).decision == "ask"
    free = ["date", "date -u", "date +%F", 'date -d yesterday "+%F"', 'x=1; date -ud "@$x" +%s', "date -Is"]
    assert not asked(free, project)


CAN_WRITE = [
    "awk 'BEGIN{system(\"touch x\")}'",
    "sed 'w x' a.txt",
    "uniq a.txt x",
    "shuf -o x a.txt",
    "sort --outp=x a.txt",
    "time -o x ls",
    "printf -v PATH x",
    "rg --pre=./x y",
    "find . -exec sed 'w x' {} +",
    "git log -1",
]


@pytest.mark.matrix
@pytest.mark.parametrize("reader", CAN_WRITE)
def test_a_reader_that_can_write_asks_beside_a_command_that_runs_with_writes(project: Path, reader: str) -> None:
    rules = RuleSet((parse_rule("allow", "bash(make *)", TOOLS),))
    for line in (f"{reader}; make x", f"make x && {reader}", f"make x | {reader}"):
        found = decide(line, project, "ask", rules)
        assert (found.decision, found.profile) == ("ask", "write"), line
    free = ["make x | tail -5", "ls; make x", "make x | grep -n y | sed -n 1,5p", "find . -name y | head; make x"]
    assert {decide(line, project, "ask", rules).decision for line in free} == {"allow"}


@pytest.mark.parametrize(
    "line", ["sed -i s/a/b/ a.txt", "sort -o a.txt b.txt", "find . -delete", "git branch x", "git stash"]
)
def test_what_plainly_writes_asks_at_once_and_runs_with_writes_at_auto(project: Path, line: str) -> None:
    assert decide(line, project, "ask", NONE).decision == "ask"
    found = decide(line, project, "auto", NONE)
    assert (found.decision, found.profile) == ("allow", "write")


@pytest.mark.matrix
def test_a_reader_that_asks_for_write_access_is_asked_about(project: Path) -> None:
    def ask_to_write(level: str, *rules: str) -> tuple[str, str]:
        found = decide_command(
            "awk '{print > \"x\"}' a.txt; ls",
            level=level,
            rules=RuleSet(tuple(parse_rule("allow", one, TOOLS) for one in rules)),
            cwd=project,
            project=project,
            confined=True,
            writes=True,
        )
        return found.decision, found.profile

    assert ask_to_write("ask") == ask_to_write("edit") == ("ask", "write")
    assert ask_to_write("auto") == ("allow", "write")
    assert ask_to_write("ask", "bash(awk *)") == ("ask", "write"), "its other part asks too"
    assert ask_to_write("ask", "bash(awk *)", "bash(ls *)") == ("ask", "write"), "a rule for a reader covers reading"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "script", ["awk '{getline x < \"k\"}' a.txt", "sed 'r k' a.txt", "sed -n rk a.txt", "sed -f k a.txt"]
)
def test_a_script_that_may_read_more_asks_where_a_rule_is_about_reading(project: Path, script: str) -> None:
    plain = ["awk '{print $1}' a.txt", "sed -n 1,5p a.txt", "sed 's/a/b/g;/x/d' a.txt"]
    assert not asked([script, *plain], project)
    rules = RuleSet((parse_rule("ask", "read_file(private/**)", TOOLS),))
    assert decide(script, project, "ask", rules).decision == "ask"
    assert {decide(one, project, "ask", rules).decision for one in plain} == {"allow"}


@pytest.mark.parametrize(
    ("tool", "governs", "asks"),
    [
        ("bash", True, True),
        ("shell", False, True),
        ("read_file", True, True),
        ("read_page", True, True),
        ("read_page", False, False),
        ("edit_file", True, False),
    ],
)
def test_a_computed_word_asks_where_a_rule_holds_for_what_a_command_reads(
    project: Path, tool: str, governs: bool, asks: bool
) -> None:
    kind = {"shell": "bash", "read_page": "read_file"}.get(tool, tool)
    tools = {**TOOLS, tool: replace(TOOLS[kind], name=tool, governs=governs)}
    rule = f"{tool}(make)" if tools[tool].runs_commands else f"{tool}(secrets/**)"
    rules = RuleSet((parse_rule("deny", rule, tools),))
    rules = rules.for_commands_of(tools[tool]) if tools[tool].runs_commands else rules
    found = decide("git ls-files | xargs head", project, "ask", rules)
    assert found.decision == ("ask" if asks else "allow") and (rule in found.why) is asks


def test_a_program_of_the_project_or_chosen_by_it_does_not_say_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, shims = make_project(tmp_path / "p"), tmp_path / "shims"
    for place in (folder / "bin", shims):
        place.mkdir()
        (place / "node").write_text("#!/bin/sh\n")
        (place / "node").chmod(0o755)
    (shims / "pip").symlink_to(folder / "bin/node")
    monkeypatch.setenv("PATH", f"{shims}:/usr/bin:/bin")
    assert not asked(["node --version", "grep --version"], folder)
    assert asked(["pip list", "pip --version"], folder), "a link to a file of the project"
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    assert asked(["node --version"], folder)


def test_the_end_of_files_and_a_pause_are_free_where_nothing_hangs(project: Path) -> None:
    lines = ["git ls-files | xargs tail -n 3 --", 'for f in $(git ls-files); do tail -n 3 -- "$f"; done', "sleep 1; ls"]
    lines += ["find . -exec tail {} +", "tail -- *", "for f in *.txt; do tail -- $f; done", "git ls-files | xargs head"]
    assert not asked(lines, project)


def test_a_variable_of_the_environment_is_neither_set_nor_read_but_a_few(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("some_file", "/etc/passwd")
    lines = ["cat $some_file", "some_file=a; cat $some_file", "for some_file in a.txt; do cat $some_file; done"]
    assert len(asked(lines, project)) == len(lines)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line",
    [
        "; ".join(f"a{n}=1" for n in range(900)) + "; echo $a1",
        "; ".join([*(["x=a"] * 300), *(["y=$x$x"] * 300), *(["z=$y$y"] * 300), "echo $z"]),
        "; ".join(["wc $(git ls-files)"] * 400),
        "echo " + "$(" * 300 + "ls" + ")" * 300,
        "for f in a; do " * 200 + "ls; " + "done; " * 200,
        "awk '" + "/a" * 900 + "' f",
        "awk '" + "[" * 1900 + "' f",
    ],
)
def test_the_decision_on_a_long_line_ends(project: Path, line: str) -> None:
    deciding = threading.Thread(target=decide, args=(line, project, "ask", NONE), daemon=True)
    deciding.start()
    deciding.join(120)
    assert not deciding.is_alive(), "it takes less than a second; what grows with a power takes minutes"


COMPUTED = (
    "wc -l $(git ls-files)",
    "ls | xargs cat",
    "find . -exec cat {} +",
    "for f in *.txt; do cat $f; done",
    "echo $HOME",
    "x=a.txt; cat $x",
)


@pytest.mark.matrix
@pytest.mark.parametrize("rule", ["read_file(secrets/**)", "bash(rm *)"])
@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_a_computed_word_may_be_what_a_rule_names(project: Path, rule: str, decision: Decision) -> None:
    assert not asked(list(COMPUTED), project)
    rules = RuleSet((parse_rule(decision, rule, TOOLS),))
    assert {decide(line, project, "ask", rules).decision for line in COMPUTED} == {"ask"}
    allowed = RuleSet((parse_rule("allow", "bash(rm *)", TOOLS),))
    assert {decide(line, project, "ask", allowed).decision for line in COMPUTED} == {"allow"}
    assert decide("for f in a.txt; do rm $f; done", project, "ask", allowed).decision == "ask"
    assert decide("for f in a.txt; do rm a.txt; done", project, "ask", allowed).decision == "ask", "a loop of others"


@pytest.mark.matrix
def test_computed_lines_run_in_the_profile_read_and_ask_where_there_is_none(project: Path) -> None:
    for line in COMPUTED:
        for level in LEVELS:
            found = decide_command(line, level=level, rules=NONE, cwd=project, project=project, confined=True)
            assert (found.decision, found.profile) == ("allow", "read"), line
            found = decide_command(line, level=level, rules=NONE, cwd=project, project=project, confined=False)
            assert found.decision == "ask"


def test_the_values_of_a_variable_are_bounded(project: Path) -> None:
    assert not asked([f"for f in {' '.join(['a'] * 300)}; do cat $f; done"], project)
    assert asked([f"for f in {' '.join(['a'] * 500)}; do cat $f; done"], project)


@pytest.mark.matrix
def test_the_globs_of_a_line_list_no_more_than_one_may(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"f{number}").touch()
    assert not asked(["ls f*; ls f*"], tmp_path)
    assert asked(["ls f*; " * 6], tmp_path)


@pytest.mark.matrix
@pytest.mark.parametrize("word", ["$f$f", "$f$f$f", "x$f$g"])
@pytest.mark.parametrize("names", [19, 400])
def test_the_values_of_all_words_are_counted_before_they_are_made(project: Path, word: str, names: int) -> None:
    values, body = " ".join(["a"] * names), f"cat {word}; " * 58
    line = f"for f in {values}; do for g in {values}; do {body} done; done"
    deciding = threading.Thread(target=asked, args=([line], project), daemon=True)
    deciding.start()
    deciding.join(120)
    assert not deciding.is_alive(), "what is made before it is counted takes minutes"
    assert asked([line], project)


def test_two_variables_in_one_word_are_both_seen(project: Path) -> None:
    assert not asked(['x=src; y=a.py; cat "$x/$y"; echo "$x $y"; echo "$(ls) $(pwd)"'], project)
    lines = ['x=a; echo "$x ${y}"', 'x=a; echo "$x $y"', 'x=src; y=/../../b; cat "$x$y"']
    lines += ['x=a; y=/etc/passwd; cat "$y$x"', 'x=src; y=..; cat "$x/$y/$y/z"']
    assert len(asked(lines, project)) == len(lines)


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("find src -execdir cat {} +", True),
        ("timeout 5 fd -x cat", True),
        ("pip list --python ./x", True),
        ("nm --plugin ./x.so a.txt", True),
        ("cargo metadata --config names.txt", True),
        ("tar tf x.tar --to-command=sh", True),
        ("gawk -E names.txt", True),
        ("ack --files-from=names.txt x", False),
        ("file --files-from names.txt", False),
        ("find -files0-from names.txt", False),
        ("sha256sum -c names.txt", False),
        ("wc --files0-from=names.txt", False),
        ("git cat-file --batch", False),
        ("git config -l --includes --file names.txt", False),
    ],
)
def test_a_reader_that_runs_or_opens_what_is_not_named_asks_where_a_rule_restricts_that(
    project: Path, line: str, runs: bool
) -> None:
    def why(rule: str) -> str:
        return decide(line, project, "ask", RuleSet((parse_rule("deny", rule, TOOLS),))).why

    assert "read_file(secrets/**)" in why("read_file(secrets/**)")
    assert ("bash(rm *)" in why("bash(rm *)")) is runs


def test_a_reader_that_names_what_it_reads_is_free_where_a_rule_restricts(project: Path) -> None:
    lines = ["ls -la src", "grep -rn x src", "rg -f names.txt src", "find src -name a.py", "sort -u names.txt"]
    lines += ["jq .name a.txt", "git log --oneline -5", "file src/a.py", "sha256sum a.txt", "awk '{print $1}' a.txt"]
    rules = RuleSet((parse_rule("deny", "read_file(secrets/**)", TOOLS),))
    assert {decide(one, project, "ask", rules).decision for one in lines} == {"allow"}


def test_more_readers_are_free_beside_a_command_that_runs_with_writes(project: Path) -> None:
    rules = RuleSet((parse_rule("allow", "bash(make *)", TOOLS),))
    free = ["make x | jq .", "make x | sort | uniq -c", "fd -e py; make x", "make x | column -t"]
    assert {decide(one, project, "ask", rules).decision for one in free} == {"allow"}
    writing = ["make x | uniq a.txt b.txt", "fd -x rm; make x", "xxd a.txt b.txt; make x", "sed --i p a.txt; make x"]
    writing += [
        "make x | uniq - a.txt",
        "make x | xxd - a.txt",
        "make x; uniq a*",
        "sort *; make x",
        "sed 5q *; make x",
    ]
    writing += ["sed -l 5p 'w out' a.txt; make x", "sed --line-length 5p 'w out' a.txt; make x"]
    assert {decide(one, project, "ask", rules).decision for one in writing} == {"ask"}


def test_the_words_of_one_group_of_braces_are_looked_at_and_more_asks(project: Path, tmp_path: Path) -> None:
    (project / "out").symlink_to(tmp_path)
    free = ["cat {a,b}.txt", "ls src/{a.py,*}", "wc -l a{.txt,}", "for f in {a,b}.txt; do cat $f; done", "echo {x,y}"]
    assert not asked(free, project)
    lines = ["cat {a,/etc/passwd}", "cat {a.txt,out/x}", "cat ~/{a,b}", "cat {a,{b,c}}", "cat {1..3}", "cat {../a,b}"]
    lines += ["{ls,/etc}", "touch {a,b}", "cat $HOME/{a,b}", "cat {a,b}{c,d}", "cat 'a'{b,c}", "grep x {a.txt,~/b}"]
    assert asked(lines, project) and len(asked(lines, project)) == len(lines), set(lines) - {
        one.partition(": ")[0] for one in asked(lines, project)
    }
    rules = RuleSet((parse_rule("deny", "read_file(secrets/**)", TOOLS),))
    assert decide("cat {secrets/a,b}", project, "ask", rules).decision == "ask"
    (project / "out").unlink()
