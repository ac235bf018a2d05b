"""The commands that only read: which options they may have, and what their operands are.

A positive list. A short option counts only as a letter of its row, a long one only in full: GNU programs take
abbreviations, and an option that is not here may write, run a program or read elsewhere. What a row allows is run under
strace in the tests. The profile `read` holds the same by the kernel.
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
    short: str = ""
    valued: str = ""
    long: frozenset[str] = frozenset()
    is_safe_with_globs: bool = False
    """True if no option of it, listed or not, can do harm: a file may be called like one."""


TABLE = """
# COMMANDS | OPERANDS | SHORT OPTIONS | THOSE WITH A VALUE | LONG OPTIONS
#   operands: paths, path (at most one), text, `text paths` (the first is text), none, number, duration; the others have
#       code of their own in `read_only_commands`. A star: a file that is called like an option can do no harm.
#   short: letters, `#` for a number such as -5. With a value: a letter, with `?` if only what touches it is one.
#   long: name, `name=` with a value, `name?` with one only behind `=`, `name==` with two; `@name` is a row of its own.
ls | paths* | aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 | wIT | almost-all all author block-size= color? directory
    human-readable size sort= time= full-time time-style= format= classify? file-type group-directories-first
    hide= ignore= inode no-group numeric-uid-gid quoting-style= recursive reverse
cat | paths* | AbeEnstTuv | - | number number-nonblank show-all show-ends show-tabs squeeze-blank
head | paths* | qv#z | nc | lines= bytes= quiet silent verbose
tail | paths | qv#z | nc | lines= bytes= quiet silent verbose
tac | paths* | br | s | separator= before regex
rev | paths* | - | - |
nl | paths* | p | bdfhilnsvw | body-numbering= number-format= number-width= number-separator=
wc | paths* | clLmw | - | bytes chars lines words max-line-length total=
cut | paths* | nsz | bcdf | bytes= characters= delimiter= fields= complement only-delimited output-delimiter=
    zero-terminated
paste | paths* | sz | d | delimiters= serial
column | paths | tnex | scNoRHT | table separator= output-separator= table-columns=
tr | text | cCdst | - | complement delete squeeze-repeats truncate-set1
fold | paths* | bs | w | bytes spaces width=
fmt | paths* | cstu | wp | width= split-only uniform-spacing
expand | paths* | i | t | initial tabs=
unexpand | paths* | a | t | all first-only tabs=
join | paths | iz | aevjot12 | header ignore-case check-order nocheck-order
comm | paths | 123z | - | check-order nocheck-order output-delimiter= total zero-terminated
uniq | path | cdDiuz | fsw | count repeated all-repeated? ignore-case unique skip-fields= skip-chars=
    check-chars= zero-terminated
sort | paths | bcCdfghiMmnrRsuVz | kt | ignore-leading-blanks dictionary-order ignore-case general-numeric-sort
    human-numeric-sort numeric-sort reverse sort= version-sort check? field-separator= key= stable unique
    zero-terminated
grep egrep fgrep | text paths* | EFGPiInvVwxcloLqsbHhorzaUyT# | emABCdD | extended-regexp fixed-strings basic-regexp
    perl-regexp ignore-case no-ignore-case invert-match word-regexp line-regexp count color? colour?
    files-with-matches files-without-match max-count= only-matching quiet silent no-messages byte-offset
    with-filename no-filename line-number initial-tab null null-data after-context= before-context= context=
    text binary-files= exclude= exclude-dir= include= recursive regexp= line-buffered
rg | text paths | iSsnNHIhvwxcloUqaFPpu0.V# | eABCgtTmMrdEj | ignore-case smart-case case-sensitive line-number
    no-line-number with-filename no-filename invert-match word-regexp line-regexp count count-matches files
    files-with-matches files-without-match only-matching multiline multiline-dotall pcre2 fixed-strings quiet
    text hidden no-hidden no-ignore no-ignore-vcs no-config no-messages no-heading heading column vimgrep json
    stats trim type-list unrestricted null pretty regexp= after-context= before-context= context= glob= iglob=
    type= type-not= max-count= max-columns= max-depth= max-filesize= replace= color= colors= sort= sortr=
    encoding= threads= context-separator= path-separator=
fd fdfind | text paths | HIsiapgF01u | etdEjc | hidden no-ignore no-ignore-vcs case-sensitive ignore-case glob
    fixed-strings absolute-path full-path print0 extension= type= max-depth= min-depth= exclude= color=
    changed-within= changed-before= size= max-results= quiet
stat | paths | fLt | c | dereference file-system format= printf= terse cached=
file | paths | bhiIkLN0 | F | brief dereference no-dereference mime mime-type mime-encoding keep-going no-pad
    print0 separator=
du | paths | abchHklmsSx0 | dtB | all apparent-size bytes total human-readable summarize one-file-system
    max-depth= threshold= block-size= exclude= si time?
df | paths | ahHiklPT | Btx | all human-readable inodes local portability print-type type= exclude-type= total
tree | paths | adfipsughDFvrctUnCASJXNQ | LIP | dirsfirst filesfirst noreport du prune gitignore filelimit=
    charset= sort= timefmt= matchdirs ignore-case si inodes device
diff | paths | abBcdeEiHnNpqrstTuwyZ# | CUFIW | normal brief report-identical-files context? unified? ed rcs
    side-by-side width= left-column suppress-common-lines show-c-function show-function-line= label= expand-tabs
    minimal speed-large-files strip-trailing-cr ignore-case ignore-tab-expansion ignore-trailing-space
    ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines= text color? no-dereference
    recursive new-file
cmp | paths | bls | in | print-bytes bytes= verbose quiet silent ignore-initial=
od | paths* | abcdfiloshvx | AjNtw? | address-radix= skip-bytes= read-bytes= format= output-duplicates
hexdump | paths | bcCdovx | ns |
xxd | path | abeEipuC | clsgo |
strings | paths | af# | nte | all bytes= radix= encoding= print-file-name
base64 | path | d | w | decode ignore-garbage wrap=
realpath | paths | emsqzLP | - | canonicalize-existing canonicalize-missing no-symlinks quiet
readlink | paths | efmnqsvz | - | canonicalize canonicalize-existing canonicalize-missing no-newline
basename | text* | az | s | multiple suffix= zero
dirname | text* | z | - | zero
echo | any text* | neE | - |
printf | text | - | - |
date | text | uRj | dI? | utc universal rfc-email iso-8601? rfc-3339= date=
jq | text paths | rcnsSeMCjaR | - | raw-output compact-output null-input slurp sort-keys exit-status color-output
    monochrome-output join-output ascii-output raw-input tab indent= arg== argjson== stream seq
sed | text paths | nErsz | - | quiet silent regexp-extended separate null-data posix
test | test | - | - |
which | text | as | - | all
type | text | aftpP | - |
uname | none | asnrvmpio | - | all kernel-name nodename kernel-release kernel-version machine processor
    operating-system
id | text | gGnruz | - | group groups name real user
seq | text | w | fs | equal-width format= separator=
md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum | paths | bt | - | binary text tag
shasum | paths | bt | a | algorithm= binary text
cksum | paths | - | a | algorithm= untagged
sum | paths | rs | - | sysv
nproc | none | - | - | all ignore=
sleep | number | - | - |
true false : | text | - | - |
whoami arch tty groups | none | - | - |
pwd | none | LP | - |
tsort | path | - | - |
@find-tests | - | - | - | name iname path ipath wholename iwholename regex iregex type xtype size mtime mmin atime amin
    ctime cmin maxdepth mindepth perm user group links inum printf regextype uid gid
@find-flags | - | - | - | empty not a and o or print print0 prune true false readable writable executable depth
    daystart mount xdev ls quit nouser nogroup noleaf d
before-command | none | p | - |
before-nice | none | # | n | adjustment=
before-stdbuf | none | - | ioe | input= output= error=
before-time | none | p | - |
before-timeout | duration | v | ks | kill-after= signal= foreground preserve-status verbose
@diff | - | - | - | stat? numstat shortstat dirstat? summary compact-summary name-only name-status patch no-patch raw
    patch-with-stat unified? color? no-color color-words? color-moved? word-diff? word-diff-regex= minimal
    patience histogram diff-algorithm= ignore-space-change ignore-all-space ignore-blank-lines
    ignore-space-at-eol ignore-cr-at-eol ignore-submodules? find-renames? find-copies? find-copies-harder
    no-renames diff-filter= pickaxe-all pickaxe-regex full-index abbrev? no-abbrev binary check relative?
    no-relative exit-code quiet text function-context inter-hunk-context= no-prefix src-prefix= dst-prefix=
    no-ext-diff no-textconv cc merge-base no-indent-heuristic indent-heuristic ws-error-highlight=
@revisions | - | - | - | all branches? tags? remotes? glob= exclude= max-count= skip= since= after= until= before=
    author= committer= grep= invert-grep all-match regexp-ignore-case extended-regexp fixed-strings perl-regexp
    merges no-merges min-parents= max-parents= first-parent not reverse topo-order date-order author-date-order
    ancestry-path? boundary cherry-pick cherry-mark cherry left-right left-only right-only
    simplify-by-decoration simplify-merges full-history sparse dense reflog walk-reflogs no-walk? objects count
    parents children
git-status | paths | sbvz | u? | short branch show-stash porcelain? long verbose untracked-files? ignored?
    ignore-submodules? column? no-column ahead-behind no-ahead-behind renames no-renames find-renames?
git-diff | paths | pusbwWazRqc0# | U?SGlM?C?B?X? | @diff cached staged base ours theirs
git-log git-show git-whatchanged git-reflog | paths | pusbwWazRciEFPgqmtz0# | nSGU?lLM?C?B?X? | @diff @revisions
    oneline graph no-graph pretty? format= date= decorate? no-decorate decorate-refs= abbrev-commit no-abbrev-commit
    follow source log-size relative-date notes? no-notes no-show-signature encoding= show-pulls no-mailmap use-mailmap
    full-diff clear-decorations
git-shortlog | paths | nsecw | - | @revisions numbered summary email group= format= committer
git-rev-list | paths | # | n | @revisions oneline pretty? format= date= abbrev-commit timestamp disk-usage?
    no-commit-header header
git-blame | paths | bcefklnstwp | LM?C? | root show-stats show-name show-number show-email porcelain line-porcelain
    incremental abbrev? date= reverse first-parent color-lines color-by-age minimal
git-annotate | paths | - | L |
git-grep | text paths | iInvwacloLqhHEFGPWp# | eABCm | ignore-case line-number column count files-with-matches
    name-only files-without-match max-count= word-regexp invert-match cached untracked no-exclude-standard
    exclude-standard extended-regexp basic-regexp fixed-strings perl-regexp full-name null only-matching color?
    no-color break heading show-function function-context context= after-context= before-context= and or not
    all-match quiet max-depth= threads= text no-textconv
git-ls-files | paths | cdomsuzktvfi | x | cached deleted others modified stage unmerged exclude-standard exclude=
    directory no-empty-directory killed ignored full-name error-unmatch eol deduplicate abbrev? format= debug
    sparse
git-ls-tree | paths | drtlz | - | long name-only name-status full-name full-tree abbrev? object-only format=
git-cat-file | paths | tspe | - |
git-rev-parse | paths | q | - | verify quiet short? abbrev-ref? symbolic symbolic-full-name show-toplevel show-prefix
    show-cdup git-dir git-common-dir absolute-git-dir is-inside-work-tree is-inside-git-dir is-bare-repository
    is-shallow-repository show-superproject-working-tree show-object-format? all branches? tags? remotes? since=
    until= revs-only no-revs flags no-flags sq end-of-options path-format= local-env-vars shared-index-path
git-describe | paths | - | - | tags all contains always dirty? broken? long abbrev? exact-match candidates= match=
    exclude= first-parent debug
git-merge-base | paths | a | - | all octopus is-ancestor fork-point independent
git-name-rev | paths | - | - | tags refs= exclude= all name-only no-undefined always
git-for-each-ref | paths | - | - | count= sort= format= points-at= merged? no-merged? contains? no-contains?
    ignore-case color? exclude= omit-empty include-root-refs
git-show-ref | paths | hdsq | - | head dereference hash? verify abbrev? heads tags branches quiet
git-symbolic-ref | path | q | - | quiet short no-recurse
git-count-objects | none | vH | - | verbose human-readable
git-check-ignore | paths | qvnz | - | quiet verbose non-matching no-index
git-check-attr | paths | az | - | all cached
git-diff-tree | paths | prstmcvz# | U?SG | @diff root no-commit-id
git-diff-index | paths | pmz# | U?SG | @diff cached
git-diff-files | paths | pqz# | U?SG | @diff
git-range-diff | paths | s# | - | no-dual-color creation-factor= stat? no-patch left-only right-only
git-cherry | paths | v | - | abbrev? verbose
git-branch | listed | arvl | - | all remotes verbose list show-current color? no-color column? no-column sort=
    abbrev? no-abbrev format= ignore-case points-at= contains= no-contains= merged= no-merged=
git-tag | listed | ln | - | list sort= format= column? no-column color? ignore-case points-at= contains= no-contains=
    merged= no-merged=
git-remote | remote | v | - | verbose
git-stash | stash | pu# | - | stat? patch name-only name-status oneline include-untracked only-untracked format=
    date= pretty?
git-worktree | worktree | vz | - | porcelain verbose
git-version | none | - | - | build-options
"""


def _read_table() -> dict[str, ReadOnlyCommand]:
    rows: dict[str, ReadOnlyCommand] = {}
    lines = (line for line in TABLE.replace("\n    ", " ").splitlines() if line and not line.startswith("#"))
    for line in lines:
        names, operands, short, valued, long = (cell.strip() for cell in line.split(" |", 4))
        options = frozenset(one for one in long.split() if not one.startswith("@"))
        for name in long.split():
            options |= rows[name].long if name.startswith("@") else frozenset()
        row = ReadOnlyCommand(
            operands.rstrip("*"), short.strip("-"), valued.strip("-"), options, operands.endswith("*")
        )
        rows |= dict.fromkeys(names.split(), row)
    return rows


READ_ONLY: Mapping[str, ReadOnlyCommand] = _read_table()
"""By name; subcommands of git as `git-log`, what may stand before a read-only command as `before-timeout`."""
FIND_TESTS = frozenset(f"-{name}" for name in READ_ONLY["@find-tests"].long)
"""Words of `find` with a value that is text."""
FIND_FLAGS = frozenset({"!", "(", ")", ",", *(f"-{name}" for name in READ_ONLY["@find-flags"].long)})
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
