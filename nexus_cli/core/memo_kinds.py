"""The kinds of memos: what is recorded of a conversation beside its entries, and the values of each kind.

A memo belongs to an entry (`core.entry.Memo`). A kind is a name in the ledger and is never changed.
"""

from __future__ import annotations

ACTIVE_SPACE = "active_space"
"""Memo of a session: the key of the `space` that its agent has entered."""
ADDED_FOLDERS = "added_folders"
"""Memo of a session's added folders: `folders`, their real paths. The newest memo counts."""
WAITING_TEXTS = "attached"
"""Memo of `texts` waiting for the person's next message in `session`: `text` and `what` it is; of `queued` messages,
each the fields of a `TypedMessage`; and of the `memos` of these texts, by text and kind. The newest memo counts."""
ATTACHMENTS = "attachments"
"""Memo of a message with attached `files`, each as `AttachedFile.to_json`."""
CLIPPED_MESSAGE = "clipped"
"""Memo of a message that was recorded in part: `drop` (id), which holds its whole text, or `parts`: start and end of
each clipped part in the message, and the id of the drop that holds it whole."""
COMMAND = "command"
"""Memo of a message that reports a command run by the person: `command`, `status`, `error`."""
COMPACTION = "compaction"
"""Memo about a compaction or an undo: its `step`, the `epoch` that it began (None: it failed) and `why`.
A failed one has `paid` (a summary was requested) and `over` (the window did not fit). A successful one has `drops`,
`rules` (entry and text of each standing rule) and `anchor`: the last report on the replaced window."""
CUT_ANSWER = "cut"
"""Memo with the `text` of an answer whose stream was cut, the `step` of its request, and `why`."""
DECISION = "decision"
"""Memo with the decision on a call and the person's answer (`reports/decisions.py`), recorded as the call begins to
run, and with its result if it did not run. A call without this memo could not run, or was granted by the level alone
when such decisions were not recorded."""
TOLD_FACTS = "facts"
"""Memo of told facts: `ids` of those that its entry, or a drop named in it, contains."""
EVENT = "event"
"""Memo of an event that no entry holds (`session/session.py`), as its line: `type` and the fields."""
FAILED_EDIT = "failed_edit"
"""Memo of the result of an edit that failed: `behind`, the result of the commands behind it in its message."""
GOAL = "goal"
"""Memo of goals: `goals` set (`id`, `text`, `parent` of a step), `done` and `dropped` (ids)."""
SPACE_HISTORY = "history"
"""Memo of an entry with messages of a space: `space` (key), its `name`, `messages` (keys; none: the header alone),
`parts`: offsets in the entry of each message's start, state and end."""
HOOK = "hook"
"""Memo of one run of a hook: `event`, `hook` (its name), `source`, `outcome`, `why`, `seconds`, `about` (a
call)."""
IMPORTED_SESSION = "imported"
"""Memo of a session that another program made: `from`, `id`, `file`, `stamp`, `entries`, `digest`, `usage` by model,
`left_out`."""
JOB = "job"
"""Memo with the state of a job, written when it starts and when it ends; by the next opening of the session if it was
`killed` with its process. `untold` is the report of its end, which the next request tells the model unless a later memo
of the job has none. Where an earlier version recorded the report as a `NOTICE`, the job is `told`."""
LEFT_OUT_SECTION = "left_out"
"""Memo of a dropped `section`: `sha256` of its whole text, and the id of the `drop`."""
LIMITS_IN_FORCE = "limits"
"""Memo of the limits of a request: `recipe`, its `section_budget`, `limits` as in `nexus docs json`, and the model's
`window` and `max_output` in tokens as known then. Valid for all requests until the next such memo."""
LEVEL_SET = "level"
"""Memo of the `limits` with a permission level that was set in the session, as in `LIMITS_IN_FORCE`, also if no
request had them."""
NOTICE = "notice"
"""Memo of `lines` for the model, which the next request tells it. The newest memo `about` a job, a worker or the limits
counts; without lines there is nothing to tell. Those about "" all count. Of a job only earlier versions wrote one."""
PASTED_RANGES = "pasted"
"""Memo of a message with pasted text: `ranges`, the start and end offset of each paste in characters."""
PIN = "pin"
"""Memo of a pin: its `id`, `entry` and `text`, and what the model is `told` with its next request if it is; or `id` and
`off` once it was taken back."""
PLAN = "plan"
"""Memo of a request that sent event sections: `epoch`, `told` (section id to the hash of its whole text),
`pool`, `raised` and `sections` as in `nexus docs json`. Its entry is the newest one in the request."""
LINES_READ = "read"
"""Memo of a result that shows or edits a `file` (absolute path): the spans of `lines` sent, out of `total`;
`edits` as in `FileEdit.changes`, after which `lines` are those that the model wrote; further parts are in `also`."""
RECALLED_DROP = "recalled"
"""Memo of a message that sends a part of a drop again: `drop` (id)."""
RECAP = "recap"
"""Memo of a recap: `drop` (id) with what the head of the `epoch` (id) tells again."""
REFUSED_WINDOW = "refused_window"
"""Memo of a `window` from an overflow error that only this session uses (0: no longer), with the served
name of the `model` and the window `listed` for it at that time."""
RESULT = "result"
"""Memo of a result's entry: its `result_note`, so that a resumed session shows it as it was."""
REWRITE = "rewrite"
"""Memo of a rewrite: its cause, epoch and price."""
RULES_ASKED = "rules_asked"
"""Memo of the `last` entry up to which a summarizer was asked for rules once more."""
CLAIMED_RUN = "run"
"""Memo of the first entry after a claim: `run`, and `signals`, the keys of the signals that this entry shows."""
SERVER_CUT = "server_cut"
"""Memo with what the model is `told` with its next request."""
SHOWN_TEXT = "shown"
"""Memo of an entry: the `text` that people are shown instead of the entry's message, which is ours."""
SOURCE = "source"
"""Memo of a steering message that the person did not type: its `source`, `client` or `agent`."""
SHELL_LINE = "shell_line"
"""Memo of a `!` command that the person ran, or of `/continue`: the line that is `shown` to people."""
TODO_STATE = "todo"
"""Memo of a list: `items`, each with `text` and `state`. The newest memo is the list."""
TRIGGER = "trigger"
"""Memo of a turn that the person did not start by typing: the `source` of its trigger, `facts` (`Trigger.facts`)."""
UNDONE_COMPACTION = "undone"
"""Memo about an undo: the `epoch` of the undone compaction, and the `drops` that it restored."""
UNDONE_FILES = "undone_files"
"""Memo of an undo or redo of files by the person, or of what the person did with the changes of a worktree: the line
that is `told` to the model with the next message, the one that is `shown` to people, and the `turn`."""
UNTIL = "until"
"""Memo of a command that a `session` works for: `command` ("" ends the work), `goal` (id, may be "")."""
WAIT = "wait"
"""Memo of the tool result after which the session's run waits: `wait` (see `core.run.Wait`), and for a session without
a run `type`, `title`, `trigger`, `options`, `entity` (if any) of its new run."""
THINKING = "thinking"
"""Memo of a reply's thinking that people were shown: the `text` of which the reply's message keeps none, and the
`seconds` that it took. It is `alone` if the reply has no entry: it stands at the one before."""
COMMAND_DID = "a command"
"""Author of a change during a command of the model."""
WORK = "work"
"""Memo of a call's changes: `by` (`COMMAND_DID`, a worker such as `w1`, `worktree NAME` for one that the person
applied, or "" for a file tool), `files` (absolute paths), `more` (number of unnamed files), `worktree` (name of the
worker's), `command` (outcome of a worker's command, see `CommandRun.noted`)."""
WORK_FOLDER = "work_folder"
"""Memo of a session that continues in another `folder`. The newest memo counts."""
WORKER = "worker"
"""Memo with the state of a worker, written before it starts, when it gets its session, and when it ends."""

OPENING_KINDS = (
    ADDED_FOLDERS,
    ATTACHMENTS,
    COMPACTION,
    FAILED_EDIT,
    GOAL,
    JOB,
    LEFT_OUT_SECTION,
    LEVEL_SET,
    LIMITS_IN_FORCE,
    NOTICE,
    PIN,
    PLAN,
    REFUSED_WINDOW,
    SERVER_CUT,
    TRIGGER,
    UNDONE_COMPACTION,
    UNDONE_FILES,
    UNTIL,
    WAIT,
    WAITING_TEXTS,
    WORK_FOLDER,
    WORKER,
)
"""The kinds that the opening of a session or every turn asks for: they are read together. None has a note for each
call, of which a long session has very many."""
ACT_KINDS = (
    WORKER,
    CUT_ANSWER,
    UNDONE_FILES,
    SHELL_LINE,
    GOAL,
    HOOK,
    CLAIMED_RUN,
    WAIT,
    COMPACTION,
    REWRITE,
    EVENT,
)
"""The kinds of which each memo is an event by itself, in the order of those of one moment."""
TURN_KINDS = (*ACT_KINDS, RESULT, THINKING)
"""The kinds that the replay of every turn asks for."""
