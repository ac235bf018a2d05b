"""Levels, profiles, what "always" would store, and lines that nobody would write."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from time import thread_time

import pytest
from rules.rows import DENIED, TOOLS, decide
from search import sample, some

from nexus_cli.core.json_value import to_json_value
from nexus_cli.rules.decide import decide_command
from nexus_cli.rules.rule_set import RuleSet, parse_rule

RULES = RuleSet(
    (
        parse_rule("allow", "bash(npm test *)", TOOLS, "config.toml", 12),
        parse_rule("allow", "bash(git *)", TOOLS, "config.toml", 13),
        parse_rule("ask", "bash(git commit *)", TOOLS, "config.toml", 14),
        parse_rule("deny", "bash(git push *)", TOOLS, "config.toml", 15),
    )
)
NONE = RuleSet()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("until [ -e go ]; do ls; done", "the command contains a possibly endless loop"),
        ("for ((i = 0; i < 3; i++)); do ls; done", "the command contains a possibly endless loop"),
        ("case x in a) ls;; esac", "the command contains a case statement"),
        ("f() { ls; }", "the command contains a function"),
        (
            "echo $((1 + 2))",
            "the command contains an arithmetic expansion; "
            "the value of $((1 + 2)) is not known before the command runs",
        ),
        ("A=1; ls", "the command contains an assignment to a variable"),
    ],
)
def test_the_reasons_are_in_words_without_parts_of_a_grammar(command: str, why: str, tmp_path: Path) -> None:
    found = decide(command, tmp_path, "ask", NONE)
    assert (found.decision, found.why.partition("; an earlier command")[0]) == ("ask", why)


@pytest.mark.parametrize(
    ("command", "level", "decision", "profile"),
    [
        ("ls", "ask", "allow", "read"),
        ("ls", "auto", "allow", "read"),
        ("ls", "all", "allow", "none"),
        ("npm test -- -u", "ask", "allow", "write"),
        ("npm test | tail -5", "edit", "allow", "write"),
        ("timeout 60 npm test", "ask", "allow", "write"),
        ("X=1 npm test", "ask", "ask", "write"),
        ("npm test > out", "edit", "ask", "write"),
        ("npm test > out", "auto", "allow", "write"),
        ("npm testing", "ask", "ask", "write"),
        ("npm run x", "ask", "ask", "write"),
        ("npm run x", "edit", "ask", "write"),
        ("npm run x", "auto", "allow", "write"),
        ("./npm test", "ask", "ask", "write"),
        ("./timeout 5 npm test", "ask", "ask", "write"),
        ("git commit -m x", "ask", "ask", "write"),
        ("git commit -m x", "auto", "ask", "write"),
        ("git commit -m x", "all", "allow", "none"),
        ("git add .", "ask", "allow", "write"),
        ("git push", "auto", "deny", "write"),
        ("git push", "all", "deny", "none"),
        ("git $x", "auto", "ask", "write"),
        ("$x push", "auto", "ask", "write"),
        ("g?t push", "auto", "ask", "write"),
        ("npm $x", "auto", "allow", "write"),
        ("for f in a; do npm run $f; done", "auto", "allow", "write"),
        ("ls ;; pwd", "auto", "ask", "write"),
        ("ls\u202e", "auto", "ask", "write"),
        ("ls\u202e", "all", "allow", "none"),
        ("echo x | sh", "auto", "ask", "write"),
        ('eval "$x"', "auto", "ask", "write"),
    ],
)
def test_level_and_rules_decide_together(command: str, level: str, decision: str, profile: str, tmp_path: Path) -> None:
    found = decide(command, tmp_path, level, RULES)
    assert (found.decision, found.profile) == (decision, profile), found.why


def test_a_reason_that_several_parts_share_is_given_once(tmp_path: Path) -> None:
    why = decide("make; make; ls > a; make", tmp_path, "ask", NONE).why
    assert why.count("make is not a known read-only command") == 1 and "redirect" in why
    assert decide("ls > a; make", tmp_path, "auto", NONE).why.endswith("; a redirect to 'a'"), "no part names it"


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ('npm test; echo "exit: $?, in $PWD"', "allow"),
        ("npm test; test -n $HOME", "allow"),
        ("npm test; echo $VAR", "ask"),
        ("npm test $HOME; echo $?", "ask"),
        ("npm test; cat $HOME", "ask"),
        ("npm test; printf $HOME", "ask"),
        ("npm test; echo $HOME > $PWD/x", "ask"),
        ("npm test; echo $HOME | sh", "ask"),
        ("npm test; x=$HOME; echo $x", "ask"),
        ("npm test <<< $HOME; echo $?", "ask"),
    ],
)
def test_a_variable_that_is_only_printed_asks_for_nothing_more(command: str, decision: str, tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("allow", "bash(npm test *)", TOOLS),))
    assert decide(command, tmp_path, "edit", rules).decision == decision


def test_git_beside_a_command_that_writes_asks_and_says_why(tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("allow", "bash(npm test *)", TOOLS),))
    found = decide("npm test && git diff --stat", tmp_path, "edit", rules)
    assert (found.decision, found.why) == ("ask", "git needs approval unless the whole command line is read-only")
    assert decide("git diff --stat", tmp_path, "edit", rules).decision == "allow"


def test_without_rules_a_line_that_does_not_parse_runs_at_auto(tmp_path: Path) -> None:
    assert decide("ls ;; pwd", tmp_path, "auto", NONE).decision == "allow"
    assert decide("ls ;; pwd", tmp_path, "ask", NONE).decision == "ask"


@pytest.mark.matrix
@pytest.mark.parametrize("command", ["ls", "npm test", "make"])
@pytest.mark.parametrize("level", ["ask", "edit", "auto"])
def test_network_outside_and_a_missing_sandbox_ask_below_all(command: str, level: str, tmp_path: Path) -> None:
    here = {"cwd": tmp_path, "project": tmp_path, "rules": RULES}
    network = decide_command(command, level=level, confined=True, network=True, **here)  # type: ignore[arg-type]
    outside = decide_command(command, level=level, confined=True, outside="why", **here)  # type: ignore[arg-type]
    bare = decide_command(command, level=level, confined=False, **here)  # type: ignore[arg-type]
    found = [(one.decision, one.profile, one.prefixes) for one in (network, outside, bare)]
    assert found == [("ask", "net", ()), ("ask", "none", ()), ("ask", "none", ())]
    free = decide_command(command, level="all", confined=False, network=True, outside="x", **here)  # type: ignore[arg-type]
    assert (free.decision, free.profile) == ("allow", "none")


def test_the_json_names_each_part_and_what_decided_on_it(tmp_path: Path) -> None:
    found = to_json_value(decide("npm test && npm run x | tail -3; git push", tmp_path, "ask", RULES))
    assert found["decision"] == "deny" and found["profile"] == "write" and "line 15" in found["why"]
    assert found["parts"] == [
        {"command": ["npm", "test"], "decision": "allow", "rule": "bash(npm test *)", "from": "config.toml line 12"},
        {"command": ["npm", "run", "x"], "decision": "ask", "rule": None, "from": "level ask"},
        {"command": ["tail", "-3"], "decision": "allow", "rule": None, "from": "built in"},
        {"command": ["git", "push"], "decision": "deny", "rule": "bash(git push *)", "from": "config.toml line 15"},
    ]


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("command", "stored"),
    [
        ("npm test", ["bash(npm test *)"]),
        ("npm run build -- -u", ["bash(npm run build *)"]),
        ("python3 -m pytest tests/x.py -q", ["bash(python3 -m pytest *)"]),
        ("cargo build --release", ["bash(cargo build *)"]),
        ("git commit -m x && cargo test | tail", ["bash(git commit *)", "bash(cargo test *)"]),
        ("pytest tests/x.py", ["bash(pytest *)"]),
        ("ls; npm test", ["bash(npm test *)"]),
        ("mkdir -p x", ["bash(mkdir *)"]),
        ("docker compose up -d", ["bash(docker compose up *)"]),
        *(
            (command, [])
            for command in (
                "bash x.sh",
                "sh -c 'npm test'",
                "python3 -c 1",
                "python3 x.py",
                "node -e 1",
                "ssh h npm test",
                "sudo npm test",
                "env npm test",
                "xargs npm test",
                "npx x",
                "git -c a=b commit",
                "git config a b",
                "rm -rf x",
                "curl x",
                "make",
                "npm test && bash x",
                "npm test > x",
                "X=1 npm test",
                "npm $x",
                "find . -delete",
                "sed -i s/a/b/ f",
                "./x",
                "npm",
                "npm --prefix a run b",
                "eval x",
                "source x",
                "tee x",
                "git rebase -x id",
                "go run .",
                "uv run x",
                "npm test\u200b",
                "/opt/npm test",
                "$x",
                "",
            )
        ),
    ],
)
def test_always_stores_the_prefix_of_each_part_or_is_not_offered(
    command: str, stored: list[str], tmp_path: Path
) -> None:
    found = decide(command, tmp_path, "ask", NONE)
    assert found.decision == "ask" and list(found.prefixes) == stored
    rules = RuleSet(tuple(parse_rule("allow", text, TOOLS) for text in stored))
    if stored:
        assert decide(command, tmp_path, "ask", rules).decision == "allow", "what is stored covers the command"


def test_a_part_that_a_rule_asks_for_stores_nothing(tmp_path: Path) -> None:
    assert decide("git commit -m x", tmp_path, "ask", RULES).prefixes == ()


def test_cd_is_followed_and_links_are_not_free(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "a.py").write_text("x")
    (project / "out").symlink_to(tmp_path)
    (project / "link.txt").symlink_to(tmp_path / "secret")
    free = (
        "cd src && cat ../a.py",
        "cd src; cd ..; ls",
        f"cd {project}/src && ls",
        f"cat {project}/a.py",
        "cat a*",
        "cat sr*/x",
    )
    asked = (
        "cd src && cat ../../secret",
        "cd nosuch; cat ../secret",
        "cd nosuch; cd ..; cat secret",
        "cat link.txt",
        "cat li*",
        "cat out/secret",
        "cat o*/secret",
        "cat */secret",
        "cd out && ls",
        "cd out/project && ls",
        "(cd src); cat ../secret",
        "true || cd src; cat ../secret",
        "ls nosuch && cd src; cat ../secret",
        "cd src & cat ../secret",
        "cd nosuch; cd ..; ls",
        "cat < link.txt",
        "grep x link.txt",
        f"cat {tmp_path}/secret",
        "cd ..",
        "cat src/../../secret",
    )
    wrong = [one for one in free if decide(one, project, "ask", NONE).decision != "allow"]
    wrong += [one for one in asked if decide(one, project, "ask", NONE).decision != "ask"]
    assert not wrong


def test_credentials_are_not_free_even_where_the_project_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert decide("cat .ssh/id_rsa", tmp_path, "ask", NONE).decision == "ask"
    assert decide("cat ~/.ssh/id_rsa", tmp_path, "ask", NONE).decision == "ask"
    assert decide("cat ~/x", tmp_path, "ask", NONE).decision == "allow"
    assert decide("cat .SSH/id_rsa", tmp_path, "ask", NONE).decision == "ask", "a file system may fold names"


def test_credentials_that_a_variable_moves_into_the_project_are_not_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/hosts.yml").touch()
    assert decide("cat keys/hosts.yml", tmp_path, "ask", NONE).decision == "allow"
    monkeypatch.setenv("GH_CONFIG_DIR", str(tmp_path / "keys"))
    assert decide("cat keys/hosts.yml", tmp_path, "ask", NONE).decision == "ask"
    assert decide("cat k*/hosts.yml", tmp_path, "ask", NONE).decision == "ask"


HOSTILE = {
    "one MB of text": "echo " + "a" * 1_000_000,
    "one MB of parts": "ls;" * 333_333,
    "a NUL": "ls\0rm x",
    "10,000 parts": "true;" * 10_000 + "rm x",
    "100,000 brackets": "(" * 100_000,
    "60,000 brackets": "(" * 60_000,
    "deep brackets": "(" * 30_000 + "rm x" + ")" * 30_000,
    "deep substitutions": "$(" * 15_000 + "rm x" + ")" * 15_000,
    "backticks": "`" * 60_000 + "rm x",
    "here-documents": "cat <<A " * 7_000 + ";rm x",
    "globs": "npm " + "-* " * 19_000,
    "sudo": "sudo " * 12_000 + "rm x",
    "eval": "eval " * 12_000 + "rm x",
    "many options": "git " + "-a " * 20_000 + "push",
    "surrogates": "\ud800rm x",
    "continuations": "ls \\\n" * 12_000 + "; rm x",
    "finds": "find . " + "-exec " * 12_000 + "rm x",
    "conditions": "if " * 20_000 + "rm x",
    "programs as arguments": "fakeroot " + "rm " * 20_000,
    "texts as arguments": "fakeroot " + "'a rm b' " * 7_000,
    "options of programs as arguments": "fakeroot " + "git -a " * 9_000 + "push",
    "lines for another program": "psql <<E\n" + "select rm x;\n" * 4_800 + "E",
    "escapes": "echo $'" + "\\x" * 20_000 + "'; rm x",
    "variables in one word": "rm " + "$x" * 20_000,
    "backticks in a here-document": "cat <<E\n" + "`ls`\n" * 2_000 + "`rm x`\nE",
}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("name", "level"),
    sample([*((name, "auto") for name in HOSTILE), *((name, "ask") for name in some(list(HOSTILE)[::3], 4))], 4),
)
def test_a_hostile_line_is_decided_in_bounded_time_and_never_allowed(name: str, level: str, tmp_path: Path) -> None:
    decide("ls", tmp_path)  # the parser is loaded
    start = thread_time()
    found = decide(HOSTILE[name], tmp_path, level, DENIED)
    assert thread_time() - start < 20, "half a second; what grows with the square takes minutes"
    assert found.decision != "allow"


@pytest.mark.matrix
def test_the_parser_is_not_loaded_at_start(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, nexus_cli.rules.decide; sys.exit('tree_sitter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ}).returncode == 0


@pytest.mark.matrix
def test_a_command_that_names_a_file_of_a_read_rule_is_refused_or_asks(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / ".env")
    closed = RuleSet((parse_rule("deny", "read_file(.env)", TOOLS),))

    def decided(command: str, level: str = "ask") -> str:
        return decide_command(
            command, level=level, rules=closed, cwd=tmp_path, project=tmp_path, confined=True
        ).decision

    shown = ("cat .env", "cat ./.env", "cd src && cat ../.env", "cat link", "head -5 src/.env", "git diff -- .env")
    for command in (*shown, "wc < .env", "grep KEY < .env"):
        assert (decided(command), decided(command, "auto")) == ("deny", "deny"), command
    named = (
        "grep -n -e .env .gitignore",
        "grep -A 3 .env .gitignore",
        "jq --arg k v .env package.json",
        "rg -t md .env a",
    )
    other = ("grep KEY .env", "sed -n 1p .env", "echo .env", "ls -l .env", "git check-ignore .env", "rm .env")
    for command in ("cat .e*", *named, *other):
        assert (decided(command), decided(command, "auto")) == ("ask", "ask"), command
    assert decided("cat README.md") == decided("ls src") == decided("make", "auto") == "allow"
    for command in ("cat .env", "cat ./.env", "cat link", "head -5 src/.env", "true; grep KEY .env | wc -l"):
        assert decided(command, "all") == "deny", "what reads it in plain sight"
    for command in ("cat $x", "cat .e*", "cp a .env", "git add .env", "make", "cat README.md"):
        assert decided(command, "all") == "allow", command


def test_always_stores_the_words_alone_of_a_command_that_reads_outside_the_project(tmp_path: Path) -> None:
    for command, stored in (
        ("cat /etc/hostname", ("bash(cat /etc/hostname)",)),
        ("cat '/etc/a (b)*' && ls /etc", ("bash(cat '/etc/a (b)*')", "bash(ls /etc)")),
        ("cat ~/.bashrc", ()),
        ("mytool /etc/hostname", ("bash(mytool *)",)),
    ):
        found = decide(command, tmp_path, "ask")
        assert (found.decision, found.prefixes) == ("ask", stored), command
        rules = RuleSet(tuple(parse_rule("allow", rule, TOOLS) for rule in stored))
        assert not stored or decide(command, tmp_path, "ask", rules).decision == "allow"
        assert decide("cat /etc/passwd", tmp_path, "ask", rules).decision == "ask"


def test_a_word_that_bash_computes_does_not_ask_for_files_that_the_sandbox_hides(tmp_path: Path) -> None:
    def decided(command: str, rule: str = "deny read_file(./.env)", *, confined: bool = True, outside: str = "") -> str:
        kind, text = rule.split()
        rules = RuleSet((parse_rule(kind, text, TOOLS),))  # type: ignore[arg-type]
        made = partial(decide_command, level="auto", rules=rules, cwd=tmp_path, project=tmp_path, hides=True)
        return made(command, confined=confined, outside=outside).decision

    for command in ("ls src/*.py", "cat .e*", "X=1; echo $X", "rm -rf dist/*", "cat < $X"):
        assert decided(command) == "allow", command
        for rule in ("ask read_file(.env)", "deny read_file", "deny read_file(.git/config)"):
            assert decided(command, rule) == "ask", rule
        assert decided(command, confined=False) == decided(command, outside="why") == "ask"
    for command, verdict in (("cat .env", "deny"), ("git show $X", "ask"), ("echo HEAD:$X | xargs git show", "ask")):
        assert decided(command) == verdict, command
    for command, verdict in (("ls src/*.py", "allow"), ("cat /etc/*", "ask"), ("cat ../*", "ask"), ("cat $X", "ask")):
        assert decided(command, "deny read_file(.env)") == verdict, "a name in every folder, hidden in the project"


def test_a_word_that_names_no_file_is_decided_under_a_rule_for_files(tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("deny", "read_file(secrets/**)", TOOLS, "config.toml", 1),))
    assert decide("cat $'\\ud800'", tmp_path, "ask", rules).decision != "allow"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "line",
    [
        "git show HEAD:secrets/k",
        "git show :secrets/k",
        "git cat-file -p HEAD:secrets/k",
        "git log -L1,1:secrets/k",
        "git log -L:f:secrets/k",
        "git blame --contents=secrets/k README.md",
        "hexdump --format-file=secrets/k README.md",
        "grep -fsecrets/k README.md",
        "git log -L :f:secrets/k",
        "git grep -f./secrets/k",
    ],
)
def test_a_file_behind_a_colon_or_in_an_option_is_named_too(tmp_path: Path, line: str) -> None:
    rules = RuleSet((parse_rule("deny", "read_file(secrets/**)", TOOLS, "config.toml", 1),))
    assert decide(line, tmp_path, "ask", rules).decision != "allow"
    assert "secrets" in decide(line, tmp_path, "ask", rules).why
