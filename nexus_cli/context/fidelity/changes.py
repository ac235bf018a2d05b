"""Which files were created, changed or deleted: by tools that edit, and by what somebody says they did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nexus_cli.core.message import ToolCall

CREATED, CHANGED, DELETED = "created", "changed", "deleted"

EDITORS: Mapping[str, str] = {
    "edit_file": CHANGED,
    "write_file": CREATED,
    "create_file": CREATED,
    "delete_file": DELETED,
    "apply_patch": CHANGED,
    "str_replace": CHANGED,
    "multi_edit": CHANGED,
    "edit": CHANGED,
    "write": CREATED,
}
"""Tools that edit, and what they do where their result does not say it."""
PATH_ARGUMENTS = ("path", "file_path", "file", "filename")

_TOLD = re.compile(
    r"(?:[^\s:]{1,300}: |successfully |file |ok[:,]? ){0,2}(?P<verb>created|wrote|written|replaced|changed|edited|"
    r"updated|"
    r"deleted|removed|modified|saved|overwr\w+)\b",
    re.IGNORECASE,
)
_TOLD_STATES = {"created": CREATED, "deleted": DELETED, "removed": DELETED}

_EXTENSION = (
    r"(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|vue|svelte|rb|go|rs|c|h|cc|cpp|hpp|cs|java|kt|kts|swift|m|mm|php|pl|pm|sh|bash|"
    r"zsh|fish|ps1|bat|lua|ex|exs|erl|hs|ml|scala|"
    r"clj|dart|r|jl|sql|html?|css|scss|sass|less|xml|json|jsonl|ya?ml|toml|ini|cfg|conf|env|lock|md|rst|txt|csv|tsv|"
    r"po|pot|proto|tex|bib|sty|cls|org|adoc|bzl|zig|nim|vhd|sv|f90|cu|pas|vb|fs|groovy|pug|hbs|ejs|mdx|timer|rake|"
    r"feature|thrift|cabal|graphql|tf|tfvars|gradle|"
    r"cmake|mk|make|nix|service|patch|diff|log|bak|in|out|tmpl|tpl|j2|erb|ipynb|svg|png|jpg|gif|pdf|gemspec|plist|"
    r"storyboard|xib|example|sample|snap|dockerfile)"
)
_NAMES = (
    r"(?:Makefile|Dockerfile|Gemfile|Rakefile|Procfile|LICENSE|README|CHANGELOG|NOTICE|AUTHORS|CODEOWNERS|"
    r"Jenkinsfile|Vagrantfile|Justfile|BUILD|WORKSPACE|COPYING|\.gitignore|\.env|\.dockerignore|\.editorconfig)"
)
PATH = re.compile(
    rf"(?<![\w/.@:-])(?P<path>(?:\.{{0,2}}/|"
    rf"~/)?(?:[\w.@+-]{{1,80}}/){{0,12}}(?:[\w@+-][\w.@+-]{{0,120}}\.{_EXTENSION}|{_NAMES}))(?![\w/@+-]|\.\w)"
    r"|`(?P<quoted>(?:\.{1,2}/|~/)?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{0,120})`"
)

_PASSIVE = r"(?:is|are|was|were|has been|have been|got)(?: now| all| both)? "
STATEMENTS = tuple(
    (re.compile(pattern), state)
    for pattern, state in (
        (r"\b(?:renamed|moved)\b", "moved"),
        (r"\b(?:deleted|removed|dropped|got rid of|threw out|unlinked|gone)\b", DELETED),
        (r"\b(?:created|added|wrote|written|introduced|(?<!is )(?<!are )generated|new file|new module|extracted)\b",
         CREATED),
        (r"\b(?:changed|edited|updated|modified|rewrote|rewritten|refactored|adjusted|fixed|patched|reworked|"
         r"extended|replaced|corrected|reverted|bumped|"
         r"reformatted|cleaned up|simplified|touched|switched|converted|migrated|set|tightened|documented|restored|"
         r"regenerated|rebuilt|recreated|saved|gespeichert|geändert|"
         r"put (?:[\w-]+ ){1,4}(?:in|into)\b|had to (?:also )?(?:touch|change|edit|update|adjust|adapt|fix)|pinned|"
         r"shrank|grew|"
         r"registered|declared|configured|enabled|disabled|wired|hooked|mentioned|listed|inlined|renumbered|sorted|"
         r"merged|undone|undid)\b", CHANGED),
    )
)
"""Verbs of a statement and the state of the file that is their object."""
LEADS = (
    (re.compile(r"\b(?:delet|remov)\w*"), DELETED),
    (re.compile(r"\b(?:new files?|created|added)\b"), CREATED),
    (re.compile(r"\b(?:what i (?:changed|did)|changes|changed|modified|edited|touched|updated)\b(?!.*\b(?:need|will|"
                r"would|plan|to be)\b)"), CHANGED),
)
"""The lead of a list and the state of the files with which its items begin."""
ADDRESSED = re.compile(r"\b(?:you|can|could|please|should|must|don't)\b")
"""A person who speaks of somebody else's doing, or of what is still to be done."""
_IT = re.compile(r" (?:it|them|both|that file|this file|the file)\b")
_ADJECTIVE = re.compile(r"\b(?:the|an?|this|that|these|those|all|any|every|newly|no|your|old) $")
"""Before a participle that only describes."""
_NOW = re.compile(r"[`\"']? (?:now|no longer) (?:\w+ly |only |also |just )?\w+|[`\"']? (?:has|got|gained) (?:an? |"
                  r"the |two |three )?(?:new|missing)\b")
"""What a file does behind a change that it did not do before."""
_SAME = re.compile(r"[`\"']? (?:is|are|was|were|stays?|stayed|remains?|remained) (?:still |also |left )?(?:unchanged|"
r"untouched|the "
                   r"same|as (?:it|they) (?:is|was|were)|intact|alone)\b")
_NEW = re.compile(r"[`\"']?(?: (?:is|are) (?:brand |all )?new\b|"
                  r", an? new (?:file|module|script|class|package|test|page)\b)")
_USES = re.compile(r"[`\"']? (?:calls|uses|imports|loads|includes|reads) (?:it|that|them|the new)\b")
"""What a second file does that had to be changed for the first."""
_BETWEEN = re.compile(r"^\S*[`\"']?(?: \w+){0,3} ?$")
_DIRECTLY = re.compile(rf"[`\"']?,? (?:{_PASSIVE.removesuffix(' ')}|now|also|too) ?(?:also |too |newly |therefore )?")
"""Between a path and the verb that it is the subject of."""
_APART = re.compile(r"; |: |, (?:so|and|but|which|therefore)\b|\band\b")
"""Between a verb and a path that is not its object."""
_NEGATED = re.compile(r"\b(?:not|n't|never|nothing|without|would|will|'ll|could|should|can|must|may|might|going to|"
                      r"want|plan|if|to be|let me|shall|propose|suggest|next|have to|"
                      r"need to|yet|tried|before i|has to|still)\b")
_ONTO = re.compile(r"\b(?:to|into|as|under|onto)\b|->|→|=>")
"""Between the old and the new place of a file that was moved."""
_INTO = re.compile(r"\b(?:in|into|to|inside|within|of|from|at|under|for|on) [`\"']?$")


def of_editor(call: ToolCall, content: str) -> Iterator[tuple[str, str]]:
    """Path and state of what a tool that edits did."""
    usual = EDITORS.get(call.name)
    path = next((call.arguments[name] for name in PATH_ARGUMENTS if isinstance(call.arguments.get(name), str)), "")
    if usual is None or not path:
        return
    told = _TOLD.match(content)
    state = usual
    if told:
        state = _TOLD_STATES.get(told["verb"].lower(), usual if usual == DELETED else CHANGED)
    yield path, state


def of_statement(text: str, lead: str, person: bool = False) -> Iterator[tuple[str, str]]:
    """Path and state of the files that a sentence says were changed; `lead` stands over the list whose item it is."""
    paths = [(hit.start(hit.lastgroup or 0), hit[hit.lastgroup or 0]) for hit in PATH.finditer(text)]
    if not paths:
        return
    low = text.lower()
    verbs = sorted((hit.start(), hit.end(), state) for cue, state in STATEMENTS for hit in cue.finditer(low))
    verbs = [verb for verb in verbs if not _ADJECTIVE.search(low, 0, verb[0])]
    verbs = [verb for verb in verbs if not _NEGATED.search(low, _clause(low, verb[0]), verb[0])]
    if person:
        verbs = [verb for verb in verbs if not ADDRESSED.search(low, _clause(low, verb[0]), verb[1])]
    for start, path in paths:
        state = _stated(low, start, start + len(path), verbs, paths)
        if not state and paths[0][0] <= 2 and path == paths[0][1]:
            state = next((state for cue, state in LEADS if cue.search(lead)), "")
        if state:
            yield path, state


def _stated(
    low: str, start: int, end: int, verbs: list[tuple[int, int, str]], paths: list[tuple[int, str]]
) -> str:
    """The state that the nearest verb gives to the path at `start`."""
    if _SAME.match(low, end):
        return ""
    if _NEW.match(low, end):
        return CREATED
    if start > paths[0][0] and verbs and verbs[0][0] < start and _USES.match(low, end):
        return CHANGED
    before = [verb for verb in verbs if verb[1] <= start]
    after = [verb for verb in verbs if verb[0] > start]
    verb = before[-1] if before else None
    if verb is None and after and _BETWEEN.search(low[end : after[0][0]]):
        verb = after[0]
    direct = next((other for other in after if _DIRECTLY.fullmatch(low, end, other[0])), None)
    if verb and direct and _APART.search(low, verb[1], start):
        verb = direct
    if verb is None and _NOW.match(low, end):
        return CHANGED
    if verb is None and after and _IT.match(low, after[0][1]) and after[0][0] - end < 80:
        verb = after[0]
    if verb is None:
        return ""
    if verb[2] == "moved":
        until = next((other[0] for other in before + after if other[0] > verb[1]), len(low))
        moved = [position for position, _ in paths if verb[1] < position < until]
        if "(new" in low[end : end + 8]:
            return CREATED
        if len(moved) > 1 and _ONTO.search(low, moved[0], moved[1]):
            return DELETED if start == moved[0] else CREATED
        return CHANGED if low[:start].rstrip("`\"'").endswith((" to ", " into ")) else ""
    return CHANGED if _INTO.search(low, 0, start) else verb[2]


def _clause(low: str, position: int) -> int:
    return max(low.rfind(mark, 0, position) + 1 for mark in (",", ";", ":", "."))
