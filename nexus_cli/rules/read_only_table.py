"""The commands that only read, what their operands are, and the options that ask.

They run in the profile `read`: nothing can be written, nothing but the project and the system can be read, no host can
be reached. So an option that is not here does no harm. Those that ask write (the line would fail), run a program, read
files that no word names, or wait for ever. Where there is no sandbox, every command asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from nexus_cli.rules.bash_syntax import PLAIN_PAGERS

ENVIRONMENT: Mapping[str, str] = {
    "GIT_CONFIG_COUNT": "12",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_CONFIG_KEY_2": "core.pager",
    "GIT_CONFIG_VALUE_2": "cat",
    "GIT_CONFIG_KEY_3": "log.showSignature",
    "GIT_CONFIG_VALUE_3": "false",
    "GIT_CONFIG_KEY_4": "core.untrackedCache",
    "GIT_CONFIG_VALUE_4": "false",
    "GIT_CONFIG_KEY_5": "diff.submodule",
    "GIT_CONFIG_VALUE_5": "short",
    "GIT_CONFIG_KEY_6": "status.submoduleSummary",
    "GIT_CONFIG_VALUE_6": "false",
    "GIT_CONFIG_KEY_7": "safe.bareRepository",
    "GIT_CONFIG_VALUE_7": "explicit",
    "GIT_CONFIG_KEY_8": "gpg.program",
    "GIT_CONFIG_VALUE_8": "false",
    "GIT_CONFIG_KEY_9": "gpg.openpgp.program",
    "GIT_CONFIG_VALUE_9": "false",
    "GIT_CONFIG_KEY_10": "gpg.x509.program",
    "GIT_CONFIG_VALUE_10": "false",
    "GIT_CONFIG_KEY_11": "gpg.ssh.program",
    "GIT_CONFIG_VALUE_11": "false",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
"""Variables of a read-only command: git neither writes its index nor runs what a repository names. What they cannot
switch off (`diff.external`, filters) `git_repository` looks for."""
_COUNT = "GIT_CONFIG_COUNT"
UNSET = tuple(
    """
    RIPGREP_CONFIG_PATH CDPATH BASH_ENV ENV GIT_EXTERNAL_DIFF GIT_PAGER GREP_OPTIONS TREE_COLORS LESSOPEN
    JQ_COLORS SHELLOPTS BASHOPTS GLOBIGNORE GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_INDEX_FILE
    GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS TAR_OPTIONS AWKPATH AWKLIBPATH IFS
    """.split()
)
"""Variables that a read-only command does not get: they change what it does."""


def read_only_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a read-only command: git's settings in `environ` follow those of `ENVIRONMENT`."""
    env = {name: value for name, value in environ.items() if name not in UNSET} | {**ENVIRONMENT}
    first, given = int(ENVIRONMENT[_COUNT]), environ.get(_COUNT, "")
    count = int(given) if given.isdecimal() else 0
    for place in range(count):
        for part in ("KEY", "VALUE"):
            env[f"GIT_CONFIG_{part}_{first + place}"] = environ.get(f"GIT_CONFIG_{part}_{place}", "")
    return env | {_COUNT: str(first + count)}


HARMLESS_VARIABLES = PLAIN_PAGERS | {"LC_ALL", "LANG", "LC_CTYPE", "TZ", "NO_COLOR", "COLUMNS", "TERM"}
"""Variables that a line may set for a read-only command."""


class ReadOnlyCommand(NamedTuple):
    """One row of the table."""

    operands: str = "paths"
    letters: str = ""
    """Short options with a value; `?` behind a letter if only what touches it is one."""
    names: frozenset[str] = frozenset()
    """Long options that are known to take a value as the next word, or two (`=`), or none (`?`)."""
    asking_letters: str = ""
    asking_names: frozenset[str] = frozenset()
    is_safe_with_globs: bool = False
    """True if no option of it can do harm: a file may be called like one."""


TABLE = """
# COMMANDS | OPERANDS | OPTIONS WITH A VALUE | OPTIONS THAT ASK
#   operands: paths, path (at most one), text, `text paths` (the first is text), none, number; the others have code
#       of their own in `read_only_commands`. A star: a file that is called like an option can do no harm.
#   options with a value: letters behind a dash, each with `?` if only what touches it is a value. Long ones only where
#       the next word would else be taken for the text, the one path or a place outside; `name=` has two values,
#       `name?` none.
ls | paths* | -wIT | -LH dereference dereference-command-line
cat | paths* | |
head | paths* | -nc lines bytes |
tail | paths | -nc lines bytes | -fF follow retry
tac | paths* | -s separator |
rev | paths* | |
nl | paths* | -bdfhilnsvw |
wc | paths* | | files0-from
cut | paths* | -bcdf delimiter output-delimiter |
paste | paths* | -d delimiters |
column | paths | -scNoRHT separator output-separator |
tr | text | |
fold | paths* | -w |
fmt | paths* | -wp prefix |
expand unexpand | paths* | -t |
join | paths | -aevjot12 |
comm | paths | output-delimiter |
uniq | path | -fsw skip-fields skip-chars check-chars |
sort | paths | -kt key field-separator | -oST output compress-program files0-from random-source temporary-directory
    buffer-size
grep egrep fgrep | text paths* | -emABCdD regexp max-count after-context before-context context exclude exclude-dir
    include binary-files | -fR file dereference-recursive exclude-from
rg | text paths | -eABCgtTmMrdEj regexp after-context before-context context glob iglob type type-not type-add max-count
    max-columns max-depth max-filesize replace color colors sort sortr encoding threads context-separator
    path-separator field-context-separator field-match-separator | -fLz file follow search-zip pre pre-glob hostname-bin
    ignore-file debug trace
fd fdfind | text paths | -etdEjcSo extension type max-depth min-depth exact-depth exclude color changed-within
    changed-before size max-results threads owner format path-separator |
    -xXlLC exec exec-batch list-details follow search-path base-directory ignore-file
stat | paths | -c format printf |
file | paths | -F separator | -CfmpPSzZ compile files-from magic-file parameter preserve-date no-sandbox uncompress
    uncompress-noreport
du | paths | -dtB exclude | -DLX dereference dereference-args exclude-from files0-from
df | paths | -Btx |
tree | paths | -LIPHT | -Rlo output fromfile fromtabfile gitfile infofile hintro houtro
diff | paths | -CUFIWD label | -lX paginate exclude-from from-file to-file
cmp | paths | -in |
od | paths* | -AjNStw? |
hexdump | paths | -nse | -f
xxd | path | -clsgo | -r
strings | paths | -nte |
base64 | path | -w wrap | -oi output input
realpath readlink | paths | |
basename dirname | text* | -s |
echo | any text* | |
printf | text | | -v
date | text | -dI? date | -sfr set file reference
jq | text paths | indent arg= argjson= | -fL from-file argfile slurpfile rawfile library-path run-tests
sed | text paths | -l line-length expression | -iIf in-place file
test | test | |
which type uname id true false : | text | |
seq | text | -fs |
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum | paths | | -c check
shasum cksum | paths | -a | -c check
sum | paths | |
nproc whoami arch tty groups pwd | none | |
sleep | number | |
tsort | path | |
@find-tests | - | name iname path ipath wholename iwholename regex iregex type xtype size mtime mmin atime amin
    ctime cmin maxdepth mindepth perm user group links inum printf regextype uid gid |
@find-flags | - | empty not a and o or print print0 prune true false readable writable executable depth
    daystart mount xdev ls quit nouser nogroup noleaf d |
git-diff git-diff-tree git-diff-index git-diff-files git-range-diff git-cherry | paths | -USGl | -O no-index
git-log git-show git-whatchanged git-reflog git-rev-list | paths | -nUSGLl | -O
git-status git-shortlog git-cat-file git-ls-tree git-describe git-merge-base git-name-rev git-for-each-ref
    git-show-ref git-check-ignore git-check-attr | paths | |
git-rev-parse | paths | | parseopt
git-blame git-annotate | paths | -L | -S
git-ls-files | paths | -x | -X
git-grep | text paths | -eABCm context after-context before-context max-count max-depth threads | -Of no-index
git-symbolic-ref | path | | -d delete
git-count-objects git-version | none | |
git-branch | listed | points-at contains no-contains merged no-merged | -dDmMcCfut delete move copy force set-upstream
    set-upstream-to unset-upstream edit-description create-reflog track
git-tag | listed | points-at contains no-contains merged no-merged | -asufdmFev annotate sign local-user force delete
    message file edit verify create-reflog trailer cleanup
git-remote | remote | |
git-stash | stash | |
git-worktree | worktree | |
"""
_GIT = """
format sort exclude text? | output ext-diff textconv filters show-signature open-files-in-pager recurse-submodules
submodule remerge-diff diff-merges ignore-revs-file contents exclude-from exclude-per-directory help
"""
"""Two more cells of every row of git."""


def _read_table() -> dict[str, ReadOnlyCommand]:
    rows: dict[str, ReadOnlyCommand] = {}
    more = [cell.split() for cell in _GIT.split("|")]
    lines = (line for line in TABLE.replace("\n    ", " ").splitlines() if line and not line.startswith("#"))
    for line in lines:
        commands, operands, valued, asking = (cell.split() for cell in line.split("|"))
        if commands[0].startswith("git-"):
            valued, asking = valued + more[0], asking + more[1]
        kind = " ".join(operands)
        row = ReadOnlyCommand(
            kind.rstrip("*"), *_split_options(valued), *_split_options(asking), is_safe_with_globs=kind.endswith("*")
        )
        rows |= dict.fromkeys(commands, row)
    return rows


def _split_options(cell: list[str]) -> tuple[str, frozenset[str]]:
    letters = "".join(option[1:] for option in cell if option.startswith("-"))
    return letters, frozenset(option for option in cell if not option.startswith("-"))


READ_ONLY: Mapping[str, ReadOnlyCommand] = _read_table()
"""By name; subcommands of git as `git-log`."""
FIND_TESTS = frozenset(f"-{name}" for name in READ_ONLY["@find-tests"].names)
"""Words of `find` with a value that is text."""
FIND_FLAGS = frozenset({"!", "(", ")", ",", *(f"-{name}" for name in READ_ONLY["@find-flags"].names)})
GIT_FLAGS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects"})
"""Options of git before a subcommand that change nothing."""
GIT_VALUED = frozenset(
    {
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--super-prefix",
        "--config-env",
        "--attr-source",
    }
)
"""Options of git before a subcommand that take a value as the next word."""
