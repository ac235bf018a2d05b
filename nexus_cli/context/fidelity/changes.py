"""Which files were created, changed or deleted by a tool that edits, and what a path looks like.

What somebody says of a file is in `stated`, what a shell did in `shell`.
"""

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
PATH_ARGUMENTS = ("path", "file_path", "file", "filename", "filepath", "target_file", "target")
FROM_ARGUMENTS = ("source", "src", "from", "old_path", "from_path", "path")
TO_ARGUMENTS = ("destination", "dest", "dst", "to", "new_path", "to_path", "target")
_NAMED = (
    (re.compile(r"(?:delete|remove|unlink|rm)(?:_\w+)?"), DELETED),
    (re.compile(r"(?:write|create|new|add)_?(?:text_?|new_?)?file"), CREATED),
    (re.compile(r"(?:edit|patch|update|modify|insert|append|replace|multi_?edit|str_replace)(?:_\w+)?|"
        r"apply_\w*(?:patch|edit|diff)"), CHANGED),
)
"""Tools of other names that say what they do."""
_MOVERS = re.compile(r"(?:move|rename|mv)(?:_\w+)?")

_TOLD = re.compile(
    r"(?:[^\s:]{1,300}: |(?:successfully|the|file|ok[:,]?|has been|"
    r"[^\s:]{0,80}[/.][^\s:]{1,80}) ){0,5}(?P<verb>created|wrote|written|replaced|changed|edited|updated|deleted|"
    r"removed|modified|saved|overwr\w+)\b",
    re.IGNORECASE,
)
_TOLD_STATES = {"created": CREATED, "deleted": DELETED, "removed": DELETED, "replaced": CHANGED, "edited": CHANGED}

_EXTENSION = (
    r"(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|vue|svelte|rb|go|rs|c|h|cc|cpp|hpp|cs|java|kt|kts|swift|m|mm|php|pl|pm|sh|bash|"
    r"zsh|fish|ps1|bat|lua|ex|exs|erl|hs|ml|scala|clj|dart|r|jl|sql|html?|css|scss|sass|less|xml|json|jsonl|ya?ml|toml|"
    r"ini|cfg|conf|env|lock|md|rst|txt|csv|tsv|po|pot|proto|tex|bib|sty|cls|org|adoc|bzl|zig|nim|vhd|sv|f90|cu|pas|vb|"
    r"fs|groovy|pug|hbs|ejs|mdx|timer|rake|feature|thrift|cabal|graphql|tf|tfvars|gradle|cmake|mk|make|nix|service|"
    r"patch|diff|log|bak|in|out|tmpl|tpl|j2|erb|ipynb|svg|png|jpg|gif|pdf|gemspec|plist|storyboard|xib|example|sample|"
    r"snap|dockerfile|mod|sum|work|zon|hrl|properties|strings|entitlements|pbxproj|xcconfig|csproj|fsproj|sln|razor|"
    r"cshtml|jsp|ftl|eex|heex|leex|prisma|rules|key|pem|crt|dat|bin|hex|elf|s|S|asm|ld|dts|ino|for|f|F90|f95|R|Rmd|qmd|"
    r"webp|ico|woff2?|parquet|sqlite|db|zip|gz|whl|jar|war|ear|xsl|xsd|wsdl|jinja2?|liquid|haml|slim|coffee|elm|purs|"
    r"sol|glsl|frag|vert|hlsl|gd|tscn|mo|arb|resx|ics|odt|docx?|xlsx?|cfc|pp|rego|bats|jsonc|json5|hcl|pyx|pxd|gyp|vim|"
    r"el|org|typ|adoc)"
)
_NAMES = (
    r"(?:Makefile|Dockerfile|Gemfile|Rakefile|Procfile|LICENSE|README|CHANGELOG|NOTICE|AUTHORS|CODEOWNERS|"
    r"Jenkinsfile|Vagrantfile|Justfile|BUILD|WORKSPACE|COPYING|Pipfile|Podfile|Fastfile|Brewfile|Caddyfile|VERSION|"
    r"\.(?:\w{2,20}ignore|env|editorconfig|gitattributes|\w{2,20}rc|[\w-]{2,20}-versions?|mailmap|gitmodules|npmrc))"
)
PATH = re.compile(
    rf"(?<![\w/.@:-])(?P<path>(?:\.{{0,2}}/|"
    rf"~/)?(?:[\w.@+-]{{1,80}}/){{0,12}}(?:\.?[\w@+-][\w.@+-]{{0,120}}\.{_EXTENSION}|{_NAMES}))(?![\w/@+(-]|\.\w)"
    r"|`(?P<quoted>(?:\.{1,2}/|~/)?(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{0,120})`"
)


def of_editor(call: ToolCall, content: str) -> Iterator[tuple[str, str]]:
    """Path and state of what a tool that edits did."""
    if _MOVERS.fullmatch(call.name.lower()):
        old, new = _argument(call, FROM_ARGUMENTS), _argument(call, TO_ARGUMENTS)
        yield from ((old, DELETED), (new, CREATED)) if old and new else ()
        return
    state = usual(call.name)
    path = _argument(call, PATH_ARGUMENTS)
    if not state or not path:
        return
    told = _TOLD.match(content)
    if told:
        verb = told["verb"].lower()
        kept = state == DELETED or verb in ("wrote", "written", "saved")
        state = _TOLD_STATES.get(verb, state if kept else CHANGED)
    yield path, state


def usual(name: str) -> str:
    """What a tool of that name does to a file where its result does not say it; "" for one that does not edit."""
    known = EDITORS.get(name)
    return known or next((state for form, state in _NAMED if form.fullmatch(name.lower())), "")


def _argument(call: ToolCall, names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := call.arguments.get(name), str)), "")
