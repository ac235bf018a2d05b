"""What is typed to record the outputs, in its order; `[--json]` stands for a second line with it.

SESSION, FIRST and CALL stand for ids of the world: its newest session, its first one, a call that was refused.
HOME stands for the home folder.
"""

from __future__ import annotations

LEFT_OUT = {
    "acp": "an editor talks to it",
    "config edit": "it opens an editor",
    "login": "it needs a person at a terminal, or keeps a key in the keyring of the machine",
    "logout": "it looks into the keyring of the machine",
    "mcp login": "it needs a browser",
    "ledger share": "it needs a ledger on a server",
    "ledger unshare": "it needs a ledger on a server",
    "space open": "it needs a terminal",
    "tour": "it has a machine of its own, and tests/cli/test_tour.py",
}
"""Commands that are not run, and why; their help is recorded like that of the others."""

READS = """
--version
sessions [--json]
sessions list [--json]
sessions list --all --limit 3 [--json]
sessions list --running [--json]
sessions show prices [--json]
sessions show FIRST
sessions search tea [--json]
sessions search tea --all --limit 2 [--json]
sessions export prices --format md [--json]
sessions export prices --format jsonl
sessions export prices --format claude
model [--json]
model list [--json]
model show openai/scripted [--json]
model show fast [--json]
config [--json]
config show --origin
config get limits.max_steps [--json]
config get model [--json]
config path [--json]
rules [--json]
rules list [--json]
rules test 'ls' [--json]
rules test 'ls && git push origin' [--json]
rules test 'make all' [--json]
rules test --allow auto 'npm install' [--json]
rules test --allow auto --network 'npm install' [--json]
rules test --outside why 'npm install' [--json]
memory [--json]
memory list [--json]
memory list --all --slot agent [--json]
memory search make [--json]
memory search nothing [--json]
undo --dry-run [--json]
undo --dry-run --session prices --turn 1 [--json]
redo --dry-run [--json]
redo --dry-run --session prices [--json]
diff
diff --session prices --turn 1 [--json]
diff --session prices --turn 1 shop.py
worktree [--json]
worktree list --all [--json]
worktree diff beside [--json]
worktree diff beside --stat
doctor --instructions [--json]
import codex --dry-run [--json]
import codex --sessions --dry-run [--json]
export prices --markdown [--json]
docs
docs glossary [--json]
docs cache miss
context [--json]
context --session prices [--json]
context --session prices --step 2 [--json]
context --session prices --diff [--json]
context --model openai/small [--json]
drops [--json]
drops --session prices [--json]
drops show d1 --session prices --range 0:60 [--json]
cache --session prices [--json]
cache why --session prices [--json]
cache why 2 --session prices --details [--json]
usage [--json]
usage --by model [--json]
usage --by project [--json]
usage --by key [--json]
usage --by day [--json]
usage --by recipe [--json]
usage --by person [--json]
usage --by agent [--json]
usage --by plan [--json]
usage --since 2025-01-15 [--json]
usage --session prices [--json]
why --session prices [--json]
why --session prices CALL [--json]
timeline --session prices [--json]
timeline --session prices --last 5
timeline --space Shop [--json]
timeline --space Shop --as Sarah [--json]
timeline --run run-1 [--json]
agents --session prices
agents list --session prices [--json]
agents show w1 --session prices [--json]
jobs list --session prices [--json]
goal list --session prices [--json]
pin list --session prices [--json]
pins --session prices
keys
key list [--json]
replay --session prices [--json]
replay --session prices --step 2 [--json]
status [--json]
status --brief [--json]
status tools [--json]
skill [--json]
skill list [--json]
skill use release [--json]
skill check [--json]
schedule [--json]
schedule list [--json]
plan list
runs --json
runs list [--json]
runs list --state waiting_reply [--json]
runs list --last 2 [--json]
runs show run-1 [--json]
runs show run-2 [--json]
runs show run-3 [--json]
runs show run-4 [--json]
runs show run-5 [--json]
space [--json]
space list [--json]
space read Shop [--json]
space read Shop --last 1 [--json]
space read Shop --as Sarah [--json]
space goal Ana [--json]
plugin [--json]
hooks [--json]
plugin list [--json]
mcp [--json]
mcp list [--json]
ledger [--json]
ledger show
ask --price hi [--json]
"""
"""What reads."""
MARKING = "space read"
"""The command of `READS` that changes what it prints next: what was read is seen."""

WRITES = """
ask --quiet 'say it'
ask 'say it' [--json]
ask --stream-json 'say it'
ask --explain-context --no-save 'say it'
map -j 1 'What is in {}?' shop.py NEXUS.md
sessions rename SESSION cake
sessions fork cake --name pie
sessions delete pie
sessions fork cake --name pie --json
sessions rename pie tart --json
sessions delete tart --json
sessions stop run-3 --yes
model use openai/small
model use openai/scripted --json
config set limits.max_steps 7
config unset limits.max_steps
config set ui.theme dark
config unset ui.theme
config set limits.max_steps 7 --json
config unset limits.max_steps --json
rules add 'allow bash(npm test *)'
rules add allow 'bash(npm test *)'
rules add deny 'bash(rm *)' --here
rules remove 'bash(npm test *)'
rules add 'allow bash(npm test *)' [--json]
rules remove 'bash(npm test *)' --json
memory add 'cake is sold on Sundays'
memory add --slot agent 'Husam drinks tea' --json
memory accept m3 [--json]
memory forget m4 [--json]
memory consolidate [--json]
memory forget m3 --json
pin add 'tea costs two' --session prices [--json]
pin remove p3 --session prices
pin remove p1 --session prices --json
undo --session prices --turn 1
redo --session prices
undo --session prices --turn 1 --json
redo --session prices --json
worktree apply beside
undo --session worktree-beside
worktree apply beside --json
undo --session worktree-beside
worktree remove beside
worktree remove beside --force --json
schedule add 'water the plants' --at 2025-02-01T09:00 --zone UTC --name Water --allow edit --max-cost 1
schedule add 'water the flowers' --cron '@daily' --zone UTC --missed skip --json
schedule pause Water [--json]
schedule resume Water [--json]
schedule run Water [--json]
schedule remove Water [--json]
schedule remove plan-3 --json
runs pause --all [--json]
runs resume --all [--json]
runs pause run-5
runs resume run-2 [--json]
runs cancel --plan plan-1 [--json]
runs cancel run-3 --json
space create Garden --member Sarah --agent Bob --allow edit
space create Cellar --json
space join Garden --as Tom
space leave Garden --as Tom
space mute Garden Bob
space mute Garden Bob --off
space join Garden --as Tim [--json]
space mute Garden Bob --json
space leave Garden --as Tim --json
space post Garden 'it rains' [--json]
space goal Bob add 'water the plants' --priority 1 --long-term [--json]
space goal Bob done g2 [--json]
serve --once [--json]
trust --revoke [--json]
trust show [--json]
trust . [--json]
plugin update tidy --all [--json]
plugin remove tidy --json
plugin add HOME/tidy --all --json
plugin remove tidy
plugin add HOME/tidy --yes 'command sweep' [--json]
mcp test notes
mcp remove notes
mcp add notes nowhere-to-be-found
mcp remove notes --json
mcp add --json notes nowhere-to-be-found
import codex --yes
import codex --yes
export prices --html -o page.html
export prices --jsonl -o page.jsonl --json
ledger copy HOME/nexus/data/ledger.db HOME/copy.db
ledger copy HOME/nexus/data/ledger.db HOME/other.db --json
"""
"""What changes the home or the project, each after the one before."""

MISTAKES = """
map
map 'say {}' nowhere.txt --max-cost 5$
sessions show nobody [--json]
sessions search
sessions export nobody
sessions export prices --format pdf
sessions stop prices --yes
sessions stop nobody --yes
sessions fork nobody
sessions rename nobody name
sessions delete nobody --yes
sessions lst
model show
model show nowhere [--json]
model use nowhere
config set limits.max_steps many
config unset nope
config path more
rules list more
rules test
rules test --allow yes ls
rules remove 'bash(nothing)'
trust nowhere [--json]
trust . show
memory list --slot nowhere [--json]
memory search
memory add
memory accept m99 [--json]
memory forget m99 [--json]
undo --turn 99 --session prices [--json]
undo nowhere.txt
redo --session nobody [--json]
diff --turn 99 --session prices
diff --session nobody
worktree diff nowhere
worktree apply nowhere
worktree remove nowhere
doctor more
import nowhere
export nobody
tour more
context --step 99 [--json]
context --session nobody [--json]
context --model nowhere/nothing
drops --session nobody [--json]
drops show d99 --session prices
cache --session nobody [--json]
cache why 99 --session prices [--json]
usage --since yesterday [--json]
usage --by colour
why nothing --session prices [--json]
timeline --session nobody [--json]
timeline --space nowhere [--json]
timeline --run run-99 [--json]
timeline --last 0
replay --session nobody [--json]
replay --step 99 --session prices
status more
skill use nowhere
agents show w99 --session prices [--json]
jobs --session nobody [--json]
pin --session nobody
goal --session nobody --json
skill check nowhere
schedule add 'do it' [--json]
schedule add 'do it' --at noon --in 1h
schedule add 'do it' --in soon
schedule add 'do it' --in 1h --zone Nowhere/Else
schedule add 'do it' --in 1h --allow yes
schedule remove nowhere [--json]
schedule pause nowhere [--json]
schedule resume nowhere [--json]
schedule run nowhere [--json]
runs
runs list --state nowhere
runs list --last 0
runs show
runs show run-99 [--json]
runs cancel [--json]
runs cancel run-99 [--json]
runs pause run-99 [--json]
runs resume run-99 [--json]
runs resume run-3 --answer maybe
space create
space create Shop [--json]
space join nowhere
space leave nowhere
space leave Shop --as Nobody
space mute Shop Nobody
space goal Nobody [--json]
space goal Ana done g99
space post nowhere hello [--json]
space post Shop hello --as Nobody
space read nowhere [--json]
space open nowhere
space read Shop --last 0
plugin add nowhere --all [--json]
plugin update nowhere [--json]
plugin remove nowhere
mcp add notes
mcp remove nowhere
mcp login nowhere
serve --port x
serve --allow plan
acp --allow plan
logout
key more
ledger copy nowhere.db
ledger copy HOME/nowhere.db HOME/copy.db
ledger share . somebody
ledger unshare . somebody
exec hi
-p hi
ask --yolo hi
ask --permission-mode plan hi
ask --max-turns 3 hi
ask --session x hi
ask --last hi
map --session x hi
map --last hi
serve --yolo
acp --yolo
ask --tools read hi
ask --disallowedTools Bash hi
ask -o out.txt hi
--list-models
diff -o out.txt
serve --permission-mode plan
fork x
clear
ask --max-steps 0 hi
ask --max-cost 0 hi
ask --timeout nan hi
ask --timeout inf hi
ask --max-cost 1e400 hi
ask --model
ask -c -r 01 hi
ask --json --stream-json hi
ask --no-save --require-save hi
ask ''
-m x context
-m x doctor
-c sessions list
-C . context
context -C .
config get limits
ask --recipe '' hi
ask -f '' hi
sessions rename '' x
map 'sum up' a.py ''
pin 'x y'
sessions list --limit 10000000000000000000000000000000000000000
timeline --session ''
timeline --last x
timeline --space ''
timeline --space a --run 1
timeline --as Husam
memory accept ''
memory forget ' '
memory forget all
memory add ' '
memory add user
memory add --slot usr x
memory search ' '
rules add 'allow bsh(x)'
rules add 'allow bash(npm:*)'
rules add 'bash(x)'
rules add allow
config set limits.max_steps
config set limits.max_steps 3 --unset
config set rules.allow '["bash(make *)", "(("]'
config set 'rules."~/src".deny' 'read_file('
config set 'alias."x' openai/y
config set 'models.'"'"'foo.window' 5000
ask --effort silly hi
config set effort silly
space create xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
space create 'a space' --member a@b
space create B --allow edit
space create B --agent Ana --allow more
space create B --agent Ana --max-cost -1
space create B --agent Ana --recipe nope
space create B --agent Husam
space read Shp
space read hop
space post Shop ' '
space post Shop
space join Shop --agent
space join Shop --as Husam --agent
skill use relaese
skill use ''
skill use ../../etc/passwd
schedule add x --cron '0 0 31 2 *'
schedule add x --in 1h --missed twice
schedule add x --in 1h --name plan-7
schedule add x --in 1h --recipe nope
schedule add x --in 1h -C /nowhere
schedule add x --in 1h --max-cost -1
schedule add ' ' --in 1h
schedule add x --in 1h --name Daily
schedule run 99
schedule resume ''
serve --host a..b
serve --port 70000
serve --socket ''
serve --socket s --port 1
ask -w a/b hi
ask -w -x hi
worktree apply ../..
worktree remove xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
drops show d1 --session prices --range 5
drops show d1 --session prices --range a:b
drops show d1 --session prices --range 20:10
context --recipe ask --step 1
sessions search ' '
sessions search x --limit 0
sessions export prices --output no/such/file.md
ask --max-input 0 hi
ask --max-drop -1 hi
ask --price --stream-json hi
ask --price --watch hi
ask -r '' hi
ask --resume= hi
ask -m ' ' hi
ask --model= hi
export --html --jsonl
export --jsonl --raw
export --html nobody
map ' ' shop.py
map x -0 shop.py
map x -j 0 shop.py
map x shop.py --max-cost 0
map x shop.py --resume .
map x shop.py --resume /dev/null
map x shop.py --resume shop.py
map x shop.py --recipe nope
map x shop.py -C nowhere
"""
"""What is wrong, beside `tests/program/mistakes.txt`; nothing of it changes anything."""

SLASH = """
cache why
cache why 2
cache why 2 all
cache nonsense
compact --preview
compact keep the prices
context all
context --step 2
context --step 99
context --diff
context --diff 2
context nonsense
drops d1
drops d1 0:60
drops recall d1 0:60
drops d99
memory add cake is sold on Sundays
memory add user Husam drinks tea
memory accept all
memory forget m1
memory search make
memory list
memory nonsense
memory accept
memory forget
memory add
memory consolidate
pin keep this
pin 1
pin
pin list
pin remove 1
pin remove nothing
why nonsense
export md one.md
export jsonl two.jsonl
export claude three.jsonl
export pdf
fork beside
rename cakes
rename prices
resume --all
resume tea
resume other
resume nothing at all
rewind 0
rewind -1
rewind 2 nothing
rewind both both
rewind 99 both
rewind 1
rewind 1 files
rewind 1 both
rewind 99
timeline --last 5
timeline --space Shop
timeline --run run-1
timeline --run run-99
edit list
effort high
effort ultra
key list
login openai
login nowhere
login GitHub-Copilot
logout openai
logout nowhere
model small
model openai/small
model nowhere
permissions edit
permissions allow bash(npm test *)
permissions ask bash(git tag *)
permissions deny bash(rm *)
permissions remove bash(npm test *)
permissions remove bash(nothing)
rules list
permissions nonsense
plan sell cake
plan
add-dir ..
add-dir nowhere
agents list
agents show w1
agents w1
agents steer w1 look again
agents stop w1
agents review w1
agents w99
copy 1
copy 99
diff 1
diff 1 shop.py
diff 99
editor some text
goal sell cake
goal
goal list
goal done 1
goal drop 1
goal clear
goal sell tea --until true
goal build it --until 'make all
goal build it --until "make all
init 200 be brief
jobs list
jobs 1
jobs stop 1
redo nowhere.txt
review HEAD
review HEAD the prices
runs show run-1
runs show run-99
runs pause --all
runs resume --all
runs cancel run-3
runs nonsense
schedule add water the plants --in '2 hours' --name Plants
schedule pause Plants
schedule resume Plants
schedule remove Plants
schedule add water
schedule remove nowhere
space read Shop
space post Shop it rains
space enter Shop
space read nowhere
space read
space read Shop and more
space post Shop
space shout
undo 1
undo 99
undo nowhere.txt
config limits
config limits.max_steps 9
config limits.max_steps many
config nowhere
help all
help nowhere
status tools
cost more
plugin remove hookify
"""
"""Slash commands with arguments; each is also run without, and explained by `/help`.

`/resume --running` is left out: it names a process. `sessions list --running` prints the same report.
"""
