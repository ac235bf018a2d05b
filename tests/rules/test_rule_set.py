"""Rules as they are written: their form, their files, what is wrong with them."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from project_files import write_files
from rules.rows import TOOLS, decide

from nexus_cli.config import trust
from nexus_cli.config.paths import places
from nexus_cli.config.worktree_record import WorktreeRecord, worktrees_of
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import Decision
from nexus_cli.rules import denied_files
from nexus_cli.rules.denied_files import find_denied_files
from nexus_cli.rules.rule_set import RuleSet, parse_rule, read_rules


def read(text: str, project: Path) -> RuleSet:
    places().config.mkdir(parents=True, exist_ok=True)
    places().settings.write_text(text)
    return read_rules(places(), project, TOOLS)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", "is not a rule"),
        ("bash(", "is not a rule"),
        ("bash)", "is not a rule"),
        ("npm test", "is not a rule"),
        ("bsh(x)", "Did you mean bash?"),
        ("bash()", "empty pattern"),
        ("bash(npm:*)", "write bash(npm *)"),
        ("bash(npm test*)", "separate, final word"),
        ("bash(* x)", "separate, final word"),
        ("bash(a && b)", "single command"),
        ("bash(a | b *)", "single command"),
        ("bash(X=1 a)", "single command"),
        ("bash($x)", "single command"),
        ("bash(a > b)", "single command"),
        ("bash('a)", "single command"),
        ("bash(ls\u202e)", "is not a rule"),
        ("read_flie(x)", "Did you mean read_file?"),
        ("bash(a; b)", "single command"),
        ("agent(code reviewer)", "cannot contain spaces"),
        ("skill(shi?)", "use `*` to match any text"),
        ("bash(`a`)", "single command"),
        ("nothing_like_it", "does not name a tool"),
        ("mcp__db__" + "x" * 60, "name that the model uses"),
    ],
)
def test_what_is_no_rule_says_why(text: str, facts: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as caught:
        parse_rule("allow", text, TOOLS)
    assert facts in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("npm test *", "npm test", True),
        ("npm test *", "npm test -- -u", True),
        ("npm test *", "npm testing", False),
        ("npm test a", r"npm $'test\x1da'", False),
        ("npm test", "npm test", True),
        ("npm test", "npm test -u", False),
        ("npm *", "npm run x", True),
        ("'a b' *", "'a b' c", True),
        ("a b *", "'a b' c", False),
        ("*", "anything at all", True),
        ("npm test *", "/usr/bin/npm test", True),
        ("npm test *", "./npm test", False),
        ("npm test *", "/tmp/npm test", False),
        ("./x.sh *", "./x.sh a", True),
        ("npm test *", "npm $x", False),
        ("npm test *", "npm te*", False),
        ("npm test *", "N=1 npm test", False),
        ("npm test *", "npm test && make", False),
        ("npm test *", "npm test & make", False),
        ("npm test *", "npm test $(make)", False),
        ("npm test *", "npm test > x", False),
        ("npm test *", "sudo npm test", False),
        ("npm test *", "nice npm test", True),
        ("npm test *", "bash -c 'npm test'", False),
        ("cd *", "cd /; cat x", False),
    ],
)
def test_an_allow_rule_matches_words_and_never_text(pattern: str, command: str, fits: bool, tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("allow", f"bash({pattern})", TOOLS),))
    assert (decide(command, tmp_path, "ask", rules).decision == "allow") is fits


def test_a_refusal_for_what_bash_computes_names_wildcards_too(tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("deny", "bash(* --force)", TOOLS),))
    found = decide("wc -l *", tmp_path, "all", rules)
    assert found.decision == "deny" and "without variables or wildcards" in found.why


@pytest.mark.parametrize(
    ("pattern", "command", "verdict"),
    [
        ("git commit*", "git commit -m x", "deny"),
        ("git commit*", "true && git commit-tree x", "deny"),
        ("git commit*", "git -C . commit", "deny"),
        ("git commit*", "git status", "allow"),
        ("git commit*", "git $x", "ask"),
        ("git commit*", "git commit-t*", "deny"),
        ("git commit*", "git c?mmit-tree", "ask"),
        ("git commit*", "git c*t-tree", "ask"),
        ("rm*", "/bin/r?dir sub", "ask"),
        ("rm*", "python3 -c '(3).format()'", "allow"),
        ("git commit*", "git sta*", "allow"),
        ("git commit*", "echo 'git commit-tree' | bash", "ask"),
        ("git commit*", "python3 -c 'run(\"git commit-tree\")'", "ask"),
        ("rm*", "/bin/rmdir a", "deny"),
        ("rm*", "echo rm", "allow"),
        ("rm*", "mywrap rmdir a", "ask"),
        ("rm*", "mywrap 'rmdir a'", "ask"),
        ("rm*", "mywrap -x farm a", "allow"),
        ("rm*", "RMDIR a", "deny"),
        ("rm*", '"$d/ls" a', "allow"),
        ("git * main", "git push origin main && ls", "deny"),
        ("git * main", "GIT push main", "deny"),
        ("git * main", "env X=1 /usr/bin/git push 'main'", "deny"),
        ("git * main", "sh -c 'git push main'", "deny"),
        ("git * main", "git main", "allow"),
        ("git * main", "git push origin maine", "allow"),
        ("git * main", "git push main x", "allow"),
        ("git * main", "git push Main", "allow"),
        ("git * main", "git push $x", "ask"),
        ("git * main", "git $x main", "ask"),
        ("git * main", "git push $x dev", "allow"),
        ("git * main", "git add *.py", "allow"),
        ("git * main", "git push m*n", "ask"),
        ("git * main", "make $x", "allow"),
        ("git * main", 'git "$x" main', "deny"),
        ("git * push main", 'git "$x" main', "allow"),
        ("git * --force", "git add src/* docs/*", "allow"),
        ("git * --force", "git add *", "ask"),
        ("git * *-f", "git add src/* docs/a*", "ask"),
        ("git * src/f", "git add a/? src/*", "ask"),
        ("* --force", "wc -l slugify/*", "allow"),
        ("git * --force", 'x="a[@]"; a=(push --force); git "${!x}"', "ask"),
        ("git * --force", 'declare -n r="a[@]"; a=(push --force); git "$r"', "ask"),
        ("git * --force", f'y="push --force"; git "${{e#{"q" * 1_993}}}"$y', "ask"),
        ("chmod 777 *", 'chmod "$[777/1]" f', "ask"),
        ("rm -rf /", '$e "$d/rm" -rf /', "ask"),
        ("* --force", 'cd "$HOME/x"', "allow"),
        ("git * main", "mywrap 'git push main'", "ask"),
        ("git * main", "python3 -c 'run(\"git push main\")'", "ask"),
        ("git * main", "python3 -c \"run(['git', 'push', 'origin-main'])\"", "allow"),
        ("git * *main", "python3 -c \"run(['git', 'push', 'origin-main'])\"", "ask"),
        ("git *main", "python3 -c \"run(['git', 'push', 'xmain'])\"", "ask"),
        ("git *main", "python3 -c \"run(['git', 'push', 'xmains'])\"", "allow"),
        ("git * main *", "git push main", "deny"),
        ("git * main *", "git push main x", "deny"),
        ("git*Main", "git push origin/Main", "deny"),
        ("* --force", "git push --force", "deny"),
        ("* --force", "git push --force origin", "allow"),
        ("* --force", "mywrap 'git push --force'", "ask"),
        ("rm -rf *", "rm *.tmp", "allow"),
        ("rm -rf *", "rm -r*", "ask"),
        ("rm -rf *", 'rm "$x" y', "ask"),
        ("git push *", "git push $x", "deny"),
        ("make", "make $x y", "allow"),
        ("make", 'make "$x"', "allow"),
        ("make", "make $x", "ask"),
        ("git commit*", "git commit $x", "deny"),
        ("git commit*", 'git commit"$x"', "deny"),
        ("git commit*", 'git push-"$x"', "allow"),
        ("straße x", "STRASSE x", "deny"),
        ("rm", "R*M", "ask"),
        ("r*M x", "RxM x", "deny"),
        ("./x.sh", '"$x/x.sh"', "ask"),
        ("./x.sh", '"$x/y.sh"', "allow"),
        ("git push *", '"$x" -f', "allow"),
        ("*curl*", "echo x; /usr/bin/curl -V", "deny"),
        ("rm *-rf *", "rm -v -rf x", "deny"),
        ("rm *-rf *", "rm x", "allow"),
        ("touch '*'", "touch a", "allow"),
        ("touch '*' b*", "touch '*' bc", "deny"),
    ],
)
def test_a_deny_rule_is_compared_with_all_that_a_command_may_become(
    pattern: str, command: str, verdict: str, tmp_path: Path
) -> None:
    rules = RuleSet((parse_rule("deny", f"bash({pattern})", TOOLS),))
    found = decide(command, tmp_path, "auto", rules)
    assert found.decision == verdict, found.why


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("ship", "ship", True),
        ("ship", "Ship", True),
        ("ship", "kit:ship", True),
        ("kit:ship", "ship", False),
        ("ship", "shipper", False),
        ("kit:ship", "other:ship", False),
        ("ship*", "shipper", True),
        ("ship*", "kit:ship", True),
        ("kit*", "kit:ship", True),
        ("kit*", "ship", False),
    ],
)
def test_a_deny_rule_names_an_agent_or_skill_with_and_without_its_plugin(pattern: str, name: str, fits: bool) -> None:
    for tool in ("agent", "skill"):
        rules = RuleSet((parse_rule("deny", f"{tool}({pattern})", TOOLS),))
        assert (rules.find_for_text(TOOLS[tool], name) is not None) is fits
        allowed = RuleSet((parse_rule("allow", f"{tool}({pattern.rstrip('*')})", TOOLS),))
        assert (allowed.find_for_text(TOOLS[tool], name) is not None) is (pattern == name)


def test_rules_know_their_file_and_line(tmp_path: Path) -> None:
    text = '[rules]\n# mine\nallow = [\n  "bash(npm test *)",  # x\n  \'bash(make "a b")\',\n]\n'
    text += 'deny = ["bash(npm test -u)"]\n'
    rules = read(text, tmp_path)
    assert [(rule.decision, rule.text, rule.line) for rule in rules.rules] == [
        ("deny", "bash(npm test -u)", 7),
        ("allow", "bash(npm test *)", 4),
        ("allow", 'bash(make "a b")', 5),
    ]
    assert not rules.problems and rules.rules[0].origin.endswith("config.toml line 7")
    assert decide("npm test -u", tmp_path, "ask", rules).decision == "deny", "deny before allow, whatever the order"


def test_a_deny_rule_that_cannot_be_read_makes_every_command_ask(tmp_path: Path) -> None:
    rules = read('[rules]\ndeny = ["bash(git push"]\nallow = ["bash(make *)"]\n', tmp_path)
    (problem,) = rules.problems
    assert "config.toml line 2: deny" in problem and "git push" in problem
    assert [decide(one, tmp_path, level, rules).decision for one in ("ls", "make") for level in ("ask", "auto")] == [
        "ask"
    ] * 4
    rules = read('[rules]\nallow = ["bash(git push"]\n', tmp_path)
    assert rules.problems and decide("ls", tmp_path, "ask", rules).decision == "allow"


@pytest.mark.parametrize(
    "text",
    [
        'allow = ["bash(a b *)"]\ndeny = ["bash(a b *)"]',
        'allow = ["bash(a b)"]\ndeny = ["bash(a *)"]',
        'allow = ["bash(a)"]\nask = ["bash"]',
        'ask = ["read_file(x)"]\ndeny = ["read_file(x)"]',
    ],
)
def test_a_rule_that_another_contradicts_is_named_with_both_lines(text: str, tmp_path: Path) -> None:
    (problem,) = read("[rules]\n" + text, tmp_path).problems
    assert "overrides it" in problem and "line 2" in problem and "line 3" in problem


def test_the_line_of_a_rule_is_not_that_of_a_longer_one(tmp_path: Path) -> None:
    (problem,) = read('[rules]\ndeny = [\n "read_file(x)",\n "read_file",\n]\nallow = ["read_file"]', tmp_path).problems
    assert "deny `read_file` on line 4 overrides it" in problem


def test_rules_of_a_folder_count_for_the_projects_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.b/sub", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "linked").symlink_to("other")
    text = f'''[rules]
allow = ["bash(make *)"]
[rules."{tmp_path}/a.b"]
allow = ["bash(make *)", "bash(npm test *)"]
[rules."~/linked"]
deny = ["bash(make *)", "no rule"]
'''

    def rules(folder: str) -> list[tuple[str, int]]:
        return [(rule.text, rule.line) for rule in read(text, tmp_path / folder).listed()]

    assert rules("a.b") == rules("a.b/sub") == [("bash(make *)", 2), ("bash(make *)", 4), ("bash(npm test *)", 4)]
    assert rules("other") == [("bash(make *)", 6), ("bash(make *)", 2)]
    assert decide("make", tmp_path / "other", "ask", read(text, tmp_path / "other")).decision == "deny"
    assert "line 6" in read(text, tmp_path / "other").unread_denials[0] and not read(text, tmp_path).problems
    for wrong in ('[rules."relative"]\nallow = []\n', '[rules."/a"]\nallow = 1\n', '[rules."/a"]\nalow = []\n'):
        with pytest.raises(NexusError) as error:
            read(wrong, tmp_path)
        assert "config.toml, line" in error.value.message and "rules" in error.value.why


def test_rules_that_differ_do_not_contradict(tmp_path: Path) -> None:
    text = '[rules]\nallow = ["bash(git *)", "bash(npm test)"]\ndeny = ["bash(git push *)", "bash(npm test -u)"]\n'
    assert not read(text, tmp_path).problems


def test_examples_are_checked(tmp_path: Path) -> None:
    rules = (
        '[rules]\nallow = ["bash(npm test *)"]\ndeny = ["bash(git push *)", "read_file(secrets/**)"]\n[rule_examples]\n'
    )
    good = (
        '"bash(npm test *)" = ["npm test -- -u", "! npm run x"]\n"bash(git push *)" = ["git -C . push", "! git pull"]\n'
        '"read_file(secrets/**)" = ["secrets/a", "! src/a"]\n'
    )
    assert not read(rules + good, tmp_path).problems
    for bad in (
        '"bash(npm test *)" = ["npm run x"]',
        '"bash(npm test *)" = ["! npm test"]',
        '"bash(npm tst *)" = ["x"]',
    ):
        (problem,) = read(rules + bad, tmp_path).problems
        assert "line 5" in problem and "bash(npm test *)" in problem


def test_a_project_only_tightens_and_only_once_it_is_trusted(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            ".nexus/config.toml": '[rules]\nallow = ["bash(make *)"]\ndeny = ["bash(ls *)"]\nask = ["bash(cat *)"]\n',
        },
    )
    mine = '[rules]\nallow = ["bash(npm test *)"]\n'
    assert [rule.text for rule in read(mine, tmp_path).rules] == ["bash(npm test *)"]
    trust.trust(tmp_path)
    rules = read(mine, tmp_path)
    assert [(rule.decision, rule.text) for rule in rules.rules] == [
        ("allow", "bash(npm test *)"),
        ("deny", "bash(ls *)"),
        ("ask", "bash(cat *)"),
    ]
    decisions = [decide(one, tmp_path, "ask", rules).decision for one in ("make", "ls", "cat x", "npm test")]
    assert decisions == ["ask", "deny", "ask", "allow"]


def test_rules_of_a_project_stay_in_force_when_something_else_in_it_changes(tmp_path: Path) -> None:
    file = tmp_path / ".nexus" / "config.toml"
    file.parent.mkdir()
    file.write_text('[rules]\ndeny = ["bash(ls *)"]\n')
    trust.trust(tmp_path)
    file.write_text('ui.theme = "dark"\n\n[rules]\ndeny = [\n  "bash(cat *)",\n  "bash(ls *)",\n]\n')
    rules = read("", tmp_path).rules
    assert [(rule.text, rule.line) for rule in rules] == [("bash(ls *)", 6)]


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("secrets/**", "secrets/a/b", True),
        ("secrets/**", "secrets", True),
        ("secrets/**", "secretsx", False),
        ("secrets/**", "a/secrets/b", False),
        ("secrets", "a/secrets/b", True),
        ("*.pem", "a/b/c.pem", True),
        ("*.pem", "a/b/c.pen", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/b/a.py", False),
        ("src/**/*.py", "src/b/a.py", True),
        ("src/**/*.py", "src/a.py", True),
        ("./src", "src/a", True),
        ("src/", "src/a", True),
        (".env", "x/.env", True),
        ("a?c", "abc", True),
        ("a+b", "a+b", True),
        ("/etc/**", "/etc/passwd", True),
        ("/etc/**", "etc/passwd", False),
        ("~/x", "x", False),
    ],
)
def test_a_path_pattern_names_files_and_folders(pattern: str, path: str, fits: bool, tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("deny", f"read_file({pattern})", TOOLS),))
    assert (rules.find_for_path(TOOLS["read_file"], [tmp_path / path], tmp_path) is not None) is fits
    assert rules.find_for_path(TOOLS["write_file"], [tmp_path / path], tmp_path) is None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".env", "x/.ENV"),
        ("Secrets/**", "secrets/a"),
        ("secrets/**", "SECRETS./a"),
        ("*.pem", "a.PEM "),
        ("notes/\u00c9t\u00e9", "notes/e\u0301te\u0301"),
    ],
)
def test_deny_and_ask_read_names_as_a_lenient_file_system_does_and_allow_exactly(
    pattern: str, path: str, tmp_path: Path
) -> None:
    for decision in ("deny", "ask", "allow"):
        rules = RuleSet((parse_rule(decision, f"read_file({pattern})", TOOLS),))
        found = rules.find_for_path(TOOLS["read_file"], [tmp_path / path], tmp_path)
        assert (found is not None) is (decision != "allow"), decision


@pytest.mark.parametrize(
    ("pattern", "address", "allowed", "denied"),
    [
        ("https://ci.example.org", "https://ci.example.org/any?x=1", True, True),
        ("https://ci.example.org", "https://CI.example.org:443/", True, True),
        ("https://ci.example.org", "https://ci.example.org./", True, True),
        ("https://ci.example.org", "http://ci.example.org/", False, False),
        ("https://ci.example.org", "https://ci.example.org:8443/", False, True),
        ("https://ci.example.org:443", "https://ci.example.org:8443/", False, False),
        ("https://ci.example.org:*", "https://ci.example.org:8443/", True, True),
        ("http://*", "http://127.0.0.1:8080/", False, True),
        ("tcp://*:22", "tcp://10.0.0.1:22", True, True),
        ("tcp://*:22", "tcp://10.0.0.1:23", False, False),
        ("tcp://127.0.0.1:5432", "TCP://127.0.0.1:5432", True, True),
        ("TCP://127.0.0.1:5432", "tcp://127.0.0.1:5432", True, True),
        ("http://169.254.169.254", "http://169.254.169.254:8080/", False, True),
        ("http://169.254.169.254", "http://2852039166/", False, True),
        ("http://169.254.169.254", "http://0xa9fea9fe/", False, True),
        ("http://169.254.169.254", "http://0xA9.0376.43518/", False, True),
        ("http://169.254.169.254", "http://[::ffff:169.254.169.254]/", False, True),
        ("http://169.254.169.254", "http://[::ffff:a9fe:a9fe]:80/", False, True),
        ("http://169.254.169.254", "http://\uff11\uff16\uff19.254\u3002169.254/", False, True),
        ("http://169.254.*", "http://2852039166/", False, True),
        ("http://2130706433", "http://127.0.0.1/", False, True),
        ("http://127.1", "http://127.0.0.1/", False, True),
        ("http://[0:0::1]:80", "http://[::1]/", False, True),
        ("http://[::1]", "http://[::1%251]/", False, True),
        ("https://evil.org", "https://\uff45vil.org/", False, True),
        ("https://b\u00fccher.example", "https://xn--bcher-kva.example/", False, True),
        ("https://ci.example.org/admin*", "https://ci.example.org//admin", False, True),
        ("https://ci.example.org/admin*", "https://ci.example.org/./admin", False, True),
        ("https://ci.example.org/admin/*", "https://ci.example.org/x/%2e%2e/admin//", False, True),
        ("https://ci.example.org/admin", "https://ci.example.org/admin?x=1", False, True),
        ("https://ci.example.org/a b", "https://ci.example.org/a%20b", False, True),
        ("https://ci.example.org/a%20b", "https://ci.example.org/%61%20b", False, True),
        ("https://ci.example.org/admin", "https://ci.example.org/administration", False, False),
        ("*", "https://ci.example.org/x", False, True),
        ("**", "tcp://10.0.0.1:22", False, True),
        ("169.254.169.254", "http://2852039166:8080/", False, True),
        ("169.254.169.254:80", "http://169.254.169.254:8080/", False, False),
        ("ci.example.org/ana/*", "https://ci.example.org/ana/1", False, True),
        ("*.log", "https://ci.example.org/x.log", False, False),
        ("https://ci.example.org", "https://ci.example.org.evil.org/", False, False),
        ("https://ci.example.org", "https://ci.example.org@evil.org/", False, False),
        ("https://ci.example.org", "https://ci.example.org:x/", False, False),
        ("https://*.example.org", "https://a.example.org/x", True, True),
        ("https://*.example.org", "https://example.org/x", False, False),
        ("https://ci.example.org/ana/*", "https://ci.example.org/ana/runs/1", True, True),
        ("https://ci.example.org/ana/*", "https://ci.example.org/ben/runs", False, False),
        ("https://ci.example.org/ana/*", "https://ci.example.org/ana/../ben", False, True),
        ("https://ci.example.org/ana/*", "https://ci.example.org/ana/%252e%252e/ben", False, True),
        ("https://ci.example.org/ana/*", "https://ci.example.org/%61na/x", False, True),
        ("tcp://127.0.0.1:5432", "tcp://127.0.0.1:5432", True, True),
        ("tcp://127.0.0.1:5432", "tcp://127.0.0.1:5433", False, False),
        ("src/**", "https://ci.example.org/src/x", False, False),
    ],
)
def test_a_pattern_may_name_addresses(pattern: str, address: str, allowed: bool, denied: bool) -> None:
    tool = TOOLS["wait_for"]
    for decision, fits in (("allow", allowed), ("deny", denied)):
        rules = RuleSet((parse_rule(decision, f"wait_for({pattern})", TOOLS),))  # type: ignore[arg-type]
        assert (rules.find_for_text(tool, address) is not None) is fits, decision
    both = RuleSet(tuple(parse_rule(one, f"wait_for({pattern})", TOOLS) for one in ("allow", "deny")))
    found = both.find_for_text(tool, address)
    assert (found.decision if found else None) == ("deny" if denied else None)


@pytest.mark.parametrize(
    ("decision", "pattern"),
    [
        ("deny", "://ci.example.org"),
        ("deny", "*://ci.example.org"),
        ("deny", "https://"),
        ("deny", "https:///path"),
        ("deny", "https://ci.example.org:x"),
        ("deny", "https://ci.example.org:99999/"),
        ("deny", "http://[fd00:*]"),
        ("deny", "https://ci?.example.org"),
        ("allow", "tcp://10.0.0.1"),
    ],
)
def test_a_pattern_that_names_no_address_is_refused(decision: Decision, pattern: str) -> None:
    with pytest.raises(ValueError, match="HOST"):
        parse_rule(decision, f"wait_for({pattern})", TOOLS)


@pytest.mark.parametrize("pattern", ["tcp://*", "tcp://10.0.0.1"])
def test_deny_without_a_port_is_every_port_of_tcp_too(pattern: str) -> None:
    rules = RuleSet((parse_rule("deny", f"wait_for({pattern})", TOOLS),))
    assert rules.find_for_text(TOOLS["wait_for"], "tcp://10.0.0.1:22") is not None


def test_deny_looks_at_any_path_and_allow_at_all(tmp_path: Path) -> None:
    rules = RuleSet((parse_rule("allow", "edit_file(src/**)", TOOLS), parse_rule("deny", "edit_file(*.lock)", TOOLS)))

    def decided(*names: str) -> str | None:
        found = rules.find_for_path(TOOLS["edit_file"], [tmp_path / name for name in names], tmp_path)
        return found.decision if found else None

    assert decided("src/a") == "allow" and decided("src/a", "b") is None and decided("src/a", "x.lock") == "deny"
    assert RuleSet((parse_rule("ask", "glob", TOOLS),)).find_for_path(TOOLS["glob"], [], tmp_path) is not None


def test_in_a_worktree_the_rules_of_its_source_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = tmp_path / "Work/project"
    folder = Path(os.path.realpath(worktrees_of(source))) / "fix"
    folder.mkdir(parents=True)
    WorktreeRecord("fix", folder, source, source / ".git", "b", "c", "d", "d").save()
    text = f"""[rules]
deny = ["read_file(~/WORK/project/.env)", "read_file({tmp_path}/*/*/keys/*.pem)", "read_file(~/**/token)",
        "write_file(~/Work/other/x)", "read_file(./private)", "read_file(*.key)"]
ask = ["edit_file(~/Work)"]
allow = ["write_file(~/Work/project/free)"]
[rules."~/Work"]
deny = ["bash(make *)"]
"""
    rules = read(text, folder)
    assert decide("make", folder, "all", rules).decision == "deny"
    for tool, name, decision in (
        ("read_file", ".env", "deny"),
        ("read_file", "keys/a.pem", "deny"),
        ("read_file", "sub/token", "deny"),
        ("read_file", "sub/.env", ""),
        ("read_file", "keys/sub/a.pem", ""),
        ("edit_file", "any", "ask"),
        ("write_file", "x", ""),
        ("write_file", "free", ""),
    ):
        found = rules.find_for_path(TOOLS[tool], [folder / name], folder)
        assert (found.decision if found else "") == decision, name
    for root in (folder, source):
        (root / "keys").mkdir(parents=True)
        for name in (".env", "keys/a.pem", "plain", "private", "keys/a.key"):
            (root / name).write_text("x")
            found = rules.find_for_path(TOOLS["read_file"], [root / name], folder)
            assert (found is not None) == (name != "plain"), root / name
    hidden, names = find_denied_files(rules, folder, folder).paths, (".env", "keys/a.pem", "private", "keys/a.key")
    assert set(hidden) == {root / name for root in (folder, source) for name in names}
    monkeypatch.setattr(denied_files, "MAX_ENTRIES", 9)
    rules = read('[rules]\ndeny = ["read_file(*.key)", "agent(reviewer)", "skill(ship*)", "fetch(a.org)"]\n', folder)
    assert len(rules.rules) == 4, "none twice"
    hidden = find_denied_files(rules, folder, folder).paths
    assert hidden == (folder / "keys/a.key", source / "keys/a.key"), "each is looked through by itself"


def test_rules_of_claude_in_a_folder_of_the_project_count_from_there(tmp_path: Path) -> None:
    inner, denied = tmp_path / "web", ["Bash(make *)", "Edit(src/**)", "Read(./.env)", "Edit(*.lock)"]
    for folder, texts in ((inner, denied), (tmp_path, ["Edit(src/**)"])):
        write_files(folder, {".claude/settings.json": json.dumps({"permissions": {"deny": texts}})})
    write_files(inner, {".nexus/config.toml": '[rules]\ndeny = ["bash(touch *)"]\n'})
    trust.trust(tmp_path)
    assert len(read_rules(places(), tmp_path, TOOLS, inner).rules) == 2, "the folder is not trusted"
    trust.trust(inner)
    rules = read_rules(places(), tmp_path, TOOLS, inner)
    assert {rule.file for rule in rules.rules} == {str(one / ".claude/settings.json") for one in (tmp_path, inner)}
    assert decide("make x", inner, "all", rules).decision == "deny" != decide("touch x", inner, "all", rules).decision
    for name, refused in {"web/src/a": True, "src/a": True, "docs/src/a": False, "web/x.lock": True}.items():
        found = rules.find_for_path(TOOLS["edit_file"], [tmp_path / name], tmp_path)
        assert (found is not None) == refused, name
    assert rules.find_for_path(TOOLS["read_file"], [inner / ".env"], tmp_path)
    assert len(read_rules(places(), tmp_path, TOOLS).rules) == 2, "a session at the root has its rules alone"


def test_no_file_of_a_worktree_lifts_what_its_source_refuses(tmp_path: Path) -> None:
    source, inner = tmp_path / "project", (".nexus/config.toml", ".claude/settings.json")
    folder = Path(os.path.realpath(worktrees_of(source))) / "fix"
    WorktreeRecord("fix", folder, source, source / ".git", "b", "c", "d", "d").save()
    texts = (
        '[rules]\ndeny = ["bash(make *)", "bash(a; b)"]\nallow = ["bash(touch *)"]\n',
        json.dumps({"permissions": {"deny": ["Bash(rm -rf *)", "Read(./.env)"], "allow": ["Bash(cp *)"]}}),
    )

    def put(place: Path, *written: str) -> None:
        for name, text in zip(inner, written, strict=True):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)

    def check() -> None:
        rules = read("", folder)
        for command in ("make x", "rm -rf docs"):
            assert decide(command, folder, "all", rules).decision == "deny", command
        assert {rule.file for rule in rules.rules} >= {str(source / name) for name in inner}, "the files to change"
        assert (
            decide("touch x", folder, "ask", rules).decision == decide("cp a b", folder, "ask", rules).decision == "ask"
        )
        found = rules.find_for_path(TOOLS["read_file"], [folder / ".env"], folder)
        assert found is not None and found.decision == "deny"
        assert (len(rules.rules), len(rules.problems), len(rules.unread_denials)) == (5, 1, 1), rules

    put(source, *texts)
    put(folder, *texts)
    assert not read("", folder).rules, "nothing is trusted"
    trust.trust(source)
    check()
    put(folder, "", "{}")
    check()
    put(folder, "[rules]\ndeny = []\nallow = ['bash(rm *)']\n", '{"permissions": {"deny": ["Bash(true)"]}}')
    check()
    (folder / inner[1]).unlink()
    shutil.rmtree(folder / ".nexus")
    check()
    (folder / ".nexus").symlink_to("/")
    check()
    (folder / ".nexus").unlink()
    (source / inner[1]).unlink()
    (folder / inner[1]).write_text(texts[1])
    assert decide("rm -rf docs", folder, "all", read("", folder)).decision == "deny", "its own trusted file counts too"
    trust.revoke_trust(source)
    assert not read("", folder).rules


@pytest.mark.parametrize(
    ("address", "allowed", "denied"),
    [
        ("https://docs.python.org/3/", True, True),
        ("http://docs.python.org/3/", False, True),
        ("https://docs.python.org:8443/", False, True),
        ("https://docs.python.org.evil.test/", False, False),
        ("https://evil.test/docs.python.org", False, False),
    ],
)
def test_a_host_alone_names_its_pages_and_to_allow_it_means_tls(address: str, allowed: bool, denied: bool) -> None:
    for decision, fits in (("allow", allowed), ("deny", denied)):
        rules = RuleSet((parse_rule(decision, "fetch(docs.python.org)", TOOLS),))  # type: ignore[arg-type]
        assert (rules.find_for_text(TOOLS["fetch"], address) is not None) == fits


def test_settings_that_cannot_be_looked_at_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / ("x" * 300)))  # as without permission, which root never lacks
    with pytest.raises(NexusError, match=r"config\.toml"):
        read_rules(places(), tmp_path, TOOLS)
