"""Decide on the tool calls of one session, by its level, its rules and the sandbox.

Rules and sandbox are loaded by the first call that needs them: a session without commands does not load them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nexus_cli.config.foreign_items import RULES
from nexus_cli.config.paths import places
from nexus_cli.config.project_items import folders_between
from nexus_cli.config.record_file import TRUST_RECORD
from nexus_cli.config.settings import SandboxSettings
from nexus_cli.config.trust_files import FOLDER, MAX_BYTES
from nexus_cli.config.worktree_record import find_source
from nexus_cli.core.approval import DEFINITION
from nexus_cli.core.errors import NexusError
from nexus_cli.core.limits import ALL, ASK, EDIT, PLAN
from nexus_cli.core.real_files import read_beginning, real_path
from nexus_cli.core.shared_types import Paths
from nexus_cli.core.tool import COMMAND, CommandSandbox, Effect, Tool
from nexus_cli.core.version_memo import read_version
from nexus_cli.permission.call_decision import CallDecision, CheckedCall, MinimalGrant
from nexus_cli.permission.folder_rules import (
    ALLOWED,
    COMMAND_LINE_ORIGIN,
    COMMAND_SIGNS,
    GRANTED,
    SIGNS,
    address_rules,
    folder_of,
    folder_rules,
    opens_secrets,
    parse_allowed,
)
from nexus_cli.permission.permission import decide
from nexus_cli.permission.tool_pins import DefinitionChange, find_change, pin_tools
from nexus_cli.tools.foreign_calls import foreign_names
from nexus_cli.tools.registry import rule_tools

if TYPE_CHECKING:
    from nexus_cli.rules.denied_files import DeniedFiles
    from nexus_cli.rules.rule_set import PermissionRule, RuleSet
    from nexus_cli.sandbox.backend import BackendProbe
    from nexus_cli.sandbox.confinement import Confinement
    from nexus_cli.sandbox.profile import ProfileName, SandboxProfile, TempFolder
    from nexus_cli.sandbox.session_network import SessionNetwork

PLANS = "plan mode is read-only; answer with the plan"
"""The reason of a refusal at level `PLAN`."""
BUILT_IN = "built in"
"""`CallDecision.origin` of a command known to be read-only, see `nexus_cli.rules.readers`."""
FOR_ALL_CALLS = ("edit", "later", "send", "server")
"""`CallDecision.kind` of calls that an allow rule without a pattern covers."""
JOB_ARGUMENT = "job"
"""The argument that `Jobs.find_command` adds to those of `bash`: the id of the job."""

_MAX_TRIED_COMMANDS = 10
"""Most commands of a line, or folders, for which rules and options are tried: each is a decision of the whole line."""
_PROGRAMS = ("PATH", "LD_", "DYLD_", "GIT_")
"""The beginnings of variables that decide which programs run, and what these load; git runs what its settings name."""
_LISTS_VARIABLES = re.compile(r"(?<![\w./-])(?:env|printenv)(?=\s*(?:$|[|;&>)\n]))")
"""A command that lists the environment."""


class CallPermission:
    """Decides on the calls of one session, and prepares the sandbox of its commands."""

    def __init__(
        self,
        cwd: Path,
        project: Path,
        config_dirs: Sequence[Path] = (),
        sandbox: SandboxSettings | None = None,
        *,
        answers: bool = False,
    ) -> None:
        """Without `sandbox` (a bare session) there are no rules and no sandbox, and every command needs approval.

        `answers`: the session answers people in their spaces, and may post messages without approval.
        """
        # Rules name real paths.
        self._cwd, self._project, self._config_dirs = cwd, real_path(project), tuple(config_dirs)
        self._settings, self._answers = sandbox, answers
        self.added: Paths = ()
        """Real paths of folders that are used like the project."""
        self.rules_ahead: tuple[str, ...] = ()
        """Allow rules of `--rule`: for this run, also outside the sandbox if a call asks for that."""
        self._rules: RuleSet | None = None
        self._names_rules: bool | None = None
        self._stamp: tuple[tuple[int, ...], ...] = ()
        self._is_outdated = False
        self.probe: BackendProbe | None = None
        """The sandbox backend; None until it was looked for."""
        self._temp: TempFolder | None = None
        self._confinements: dict[str, Confinement] = {}
        self.network: SessionNetwork | None = None
        """The network that sandboxed commands share: since the first background command, without bubblewrap since the
        first command."""
        self._alone: str | None = None
        """Why commands share no network, "" if they do; None before one was made."""
        self._denied: dict[Paths, DeniedFiles] = {}
        """By the added folders that were searched."""
        self.find_whole_name: Callable[[str, str], str] = lambda kind, name: name
        """Takes the name of a tool with `Tool.named`, and that of an agent or skill; returns the name with its plugin:
        `PLUGIN:NAME`. Blocks."""
        self._shown_warnings: set[str] = set()
        self._is_told = False
        """True if a result of this turn has said that a reader which failed ran read-only."""
        self.variables: dict[str, tuple[str, bool]] = {}
        """Variables that hooks and settings of Claude set for commands, each with True if it is of the person's own."""
        self._lock = threading.Lock()

    @property
    def may_have_sandbox(self) -> bool:
        """False if commands are known to run without a sandbox here. Does not probe the system."""
        if self._settings is None or self._settings.backend == "off":
            return False
        return self.probe is None or self.probe.backend != "none"

    def is_loaded(self, level: str, *, runs: bool) -> bool:
        """Return True if `decide` at `level` would load nothing; `runs`: the call runs a command."""
        if self._settings is None:
            return True
        if self._rules is None or self._is_outdated:
            return not runs and self._names_rules is False
        if not runs or level == ALL:
            return True
        return self.probe is not None and (self.added in self._denied or not self._names_denied())

    async def load_for(self, tool: Tool | None, level: str) -> None:
        """Load what decisions on `tool` at `level` need, in a thread."""
        runs = tool is not None and tool.effect is Effect.RUN
        if not self.is_loaded(level, runs=runs):
            await asyncio.to_thread(self.load, level, runs=runs)

    def load(self, level: str, *, runs: bool = True) -> BackendProbe | None:
        """Load the rules, and for a command (`runs`) below level `all` the sandbox backend. Blocks the first time."""
        if self._settings is None:
            return None
        with self._lock:
            if runs or self._has_rules():
                self._read_rules()
            if runs and level != ALL and self._names_denied():
                self._find_denied_files("read")
        return self.probe if level == ALL or not runs else self.probe_backend()

    def probe_backend(self) -> BackendProbe | None:
        """Probe the sandbox backend of this system; None for a bare session. Blocks the first time."""
        if self._settings is None:
            return None
        with self._lock:
            if self.probe is None:
                from nexus_cli.sandbox.probe import find_backend  # noqa: PLC0415

                self.probe = find_backend(self._settings.backend, own=places(), project=self._project)
            return self.probe

    def share_probe(self, other: CallPermission) -> None:
        """Reuse the backend that `other` (of the previous session) found, if settings and project are the same."""
        if (self._settings, self._project) == (other._settings, other._project):
            self.probe = other.probe

    def has_sandbox(self) -> bool:
        """Return True if commands can be sandboxed here. Blocks the first time."""
        probe = self.probe_backend()
        return probe is not None and probe.backend != "none"

    def hides_denied(self) -> bool:
        """Return True if a sandbox hides all files that deny rules for reading name. Blocks."""
        with self._lock:
            return not self._names_denied() or self._find_denied_files("read").is_whole

    def require_sandbox(self) -> None:
        """Raise `NexusError("config", ...)` if no sandbox works here. For `sandbox.backend = "required"`."""
        probe = self.probe_backend()
        if probe is not None and probe.backend == "none":
            hint = "Run `nexus doctor` for details, or make the sandbox optional: nexus config set sandbox.backend auto"
            raise NexusError("config", 'sandbox.backend is "required"', probe.why, hint)

    def check_rules(self, level: str) -> None:
        """Read the rules, if there are any, before the first call. Blocks; raises as `refuse_unguarded` does."""
        self._stamp = _read_stamp()
        self.load(level, runs=False)
        self.refuse_unguarded(level)

    @property
    def unread_denials(self) -> Sequence[str]:
        """Return the deny rules that cannot be parsed, each as `FILE line N: PROBLEM`."""
        return self._rules.unread_denials if self._rules is not None else ()

    def refuse_unguarded(self, level: str) -> None:
        """Raise `NexusError("config", ...)` at level `all` if a deny rule cannot be parsed: nothing else would stop a
        call."""
        if level == ALL and self.unread_denials:
            source, _, why = self.unread_denials[0].partition(": ")
            hint = "Correct the rule in that file, or choose a level other than all"
            raise NexusError("config", source, why, hint)

    def take_problems(self, level: str) -> list[str]:
        """Return the warnings about rules and sandbox at `level` that were not returned before."""
        lines = list(self._rules.problems) if self._rules is not None else []
        if self.probe is not None and self.probe.backend == "none" and level != ALL:
            asks = "Every command needs approval, unless --rule allows it"
            then = "Plan mode runs no commands without a sandbox" if level == PLAN else asks
            lines.append(f"No sandbox: {self.probe.why}. {then} (see `nexus doctor`)")
        new = [line for line in lines if line not in self._shown_warnings]
        self._shown_warnings.update(new)
        return new

    def decide(
        self,
        call: CheckedCall,
        level: str,
        allowed: Iterable[str] = (),
        *,
        ahead: tuple[str, ...] = (),
        granted: tuple[str, ...] = (),
        added: Paths = (),
    ) -> CallDecision:
        """Decide on a call at `level`, with the session's rules `allowed` and those `granted` for its turn, as if the
        rules `ahead` and the folders `added` were given too; blocks before `load`."""
        judged = ASK if level == PLAN else level
        rules_ahead = parse_allowed((*self.rules_ahead, *ahead), COMMAND_LINE_ORIGIN)
        rules_allowed = parse_allowed(tuple(sorted(allowed)), ALLOWED)
        extra = (*rules_ahead, *rules_allowed, *parse_allowed(granted, GRANTED))
        if call.tool.runs_commands and self._settings is not None:
            decision = self._decide_command(call, judged, extra, (*self.added, *added))
        else:
            decision = self._decide_paths(call, judged, extra)
        if JOB_ARGUMENT in call.arguments and judged in (ASK, EDIT) and decision.origin == BUILT_IN:
            # What only reads as a command may be anything to the job that it is written to.
            decision = CallDecision(
                "ask", f"the call writes to job {call.arguments[JOB_ARGUMENT]}", "run", decision.command
            )
        reads = call.tool.effect in (Effect.NONE, Effect.READ) or decision.profile == "read"
        stays = call.tool.runs_commands and call.arguments.get("background")
        if level == PLAN and not decision.is_denied and (stays or not reads or decision.asks):
            decision = CallDecision("deny", PLANS, command=decision.command)
        return replace(decision, level=level, about=call)

    def _decide_command(
        self, call: CheckedCall, level: str, extra: tuple[PermissionRule, ...], added: Paths
    ) -> CallDecision:
        from nexus_cli.rules.decide import decide_command  # noqa: PLC0415

        probe, tool, arguments = self.load(level), call.tool, call.arguments
        rules = self._read_rules()
        rules = (replace(rules, rules=(*extra, *rules.rules)) if extra else rules).for_commands_of(tool)
        command_decision = decide_command(
            str(arguments[COMMAND]),
            level=level,
            rules=rules,
            cwd=self._cwd,
            project=self._project,
            added=added,
            confined=probe is None or probe.backend != "none",
            hides=level != ALL and self.hides_denied(),
            network=bool(arguments.get("network")),
            writes=bool(arguments.get("write")),
            outside=str(arguments.get("outside") or ""),
        )
        # A rule for all commands would open more than the tool that asks.
        offers = command_decision.prefixes if tool.governs else ()
        decision = CallDecision(command_decision.decision, command_decision.why, "run", command_decision, offers=offers)
        deciding = [part for part in command_decision.parts if part.decision == command_decision.decision]
        ruled = next((part for part in deciding if part.rule), None)
        if ruled is not None:  # what a deny rule may match asks
            of_it = (rule.decision for rule in rules.rules if (rule.text, rule.origin) == (ruled.rule, ruled.source))
            return replace(decision, rule=f"{next(of_it, command_decision.decision)} {ruled.rule}", origin=ruled.source)
        is_read_only = command_decision.decision == "allow" and all(part.source == BUILT_IN for part in deciding)
        return replace(decision, origin=BUILT_IN if is_read_only else "")

    def _decide_paths(self, call: CheckedCall, level: str, extra: tuple[PermissionRule, ...]) -> CallDecision:
        rule = self._find_rule(call, extra)
        verdict = CallDecision("allow")
        if rule is not None:
            verdict = CallDecision(rule.decision, rule=f"{rule.decision} {rule.text}", origin=rule.origin)
            verdict = replace(verdict, why=verdict.ruling)
        if verdict.is_denied:
            return verdict
        # An unread one may be for this call.
        opened = rule is not None and verdict.is_granted and (rule in extra or not self.unread_denials)
        decision = decide(
            call.tool,
            call.arguments,
            allow=level,
            cwd=self._cwd,
            project=self._project,
            added=self.added,
            config_dirs=self._config_dirs,
            targets=call.targets,
            lifts=lambda: opened and bool(rule and opens_secrets(rule, self._project)),
            answers=self._answers,
        )
        if self._settings is not None:
            decision = replace(decision, offers=self._find_offers(call, decision.kind))
        if rule is None or level == ALL:
            return decision
        if opened and (change := find_change(call.tool)):
            why = f"the MCP server {call.tool.server} has changed this tool since you allowed it"
            origin = f"changed definition of {call.tool.name}"
            return replace(decision, why=why, kind=DEFINITION, change=change, origin=origin)
        if decision.is_granted:
            return replace(verdict, kind="protected")
        has_place = rule.pattern and not (rule.origin == GRANTED and call.tool.effect is Effect.EDIT)
        return verdict if opened and decision.asks and (has_place or decision.kind in FOR_ALL_CALLS) else decision

    def _find_offers(self, call: CheckedCall, kind: str) -> tuple[str, ...]:
        """Return the allow rules that a question of `kind` about a call offers as "always"."""
        if kind == "outside" and (call.tool.reads_content or call.tool.finds_files):
            return folder_rules(call.targets.values(), self._project)
        if kind == "network":
            return address_rules(call.tool, str(call.arguments[call.tool.reaches]))
        return (call.tool.name,) if kind == "server" else ()

    def find_minimal_grant(self, decision: CallDecision) -> MinimalGrant:
        """Return the options and the rule that let a refused call run at its level, and as little else as possible: an
        allow rule for exactly this call, which `--rule` gives for one run, for several commands a `--rule` each; for a
        path outside the project `--add-dir`. The rule of "always" is named only where no other does. Blocks."""
        call = decision.checked
        if call.tool.runs_commands:
            return self._find_command_grant(call, decision)
        folders = folder_rules(call.targets.values(), self._project) if decision.kind == "outside" else ()
        exact = [f"{call.tool.name}({path})" for path in call.targets.values() if not SIGNS & set(str(path))]
        rules = [*(exact if len(call.targets) == 1 else ()), *(decision.offers if len(decision.offers) == 1 else ())]
        rule = self._find_sufficient_rule(rules, call, decision.level)
        may_work_there = call.tool.effect is Effect.READ or decision.level not in (PLAN, ASK)
        options = [f"--add-dir {shlex.quote(folder_of(folder))}" for folder in folders if may_work_there]
        return MinimalGrant(rule, " ".join(options) or self._find_rule_option((rule,), call, decision.level))

    def _find_command_grant(self, call: CheckedCall, decision: CallDecision) -> MinimalGrant:
        from nexus_cli.rules.bash_syntax import read_command_line  # noqa: PLC0415

        commands = read_command_line(str(call.arguments[COMMAND])).commands
        lines = [[word.text for word in command.words] for command in commands]
        operands = [word for line in lines for word in line[1:] if not word.startswith("-") and "\0" not in word]
        # A word with a slash in front is a path, though nothing may be there.
        found_paths = [os.path.join(self._cwd, os.path.expanduser(word)) for word in operands]
        paths = [real_path(path) for path in found_paths if path in operands or os.path.lexists(path)]
        outside = [path for path in paths if not path.is_relative_to(self._project)]
        plain = [words for words in lines if words and not COMMAND_SIGNS & {*"".join(words)}]
        written = [f"{call.tool.name}({shlex.join(words)})" for words in plain]
        exact = tuple(dict.fromkeys(written)) if len(written) <= _MAX_TRIED_COMMANDS else ()
        # What a command does with its input is not in its words: a rule for good is not offered for `sh < x`.
        lasting = () if {"<", "|"} & {*str(call.arguments[COMMAND])} else exact
        rule = self._find_sufficient_rule(lasting, call, decision.level)
        for folder in map(folder_of, [*folder_rules(outside, self._project)][:_MAX_TRIED_COMMANDS]):
            if self.decide(call, decision.level, added=(Path(folder),)).is_granted:
                return MinimalGrant(rule, f"--add-dir {shlex.quote(folder)}")
        option = self._find_rule_option(exact, call, decision.level)
        if not (rule or option) and len(decision.offers) == 1:
            rule = self._find_sufficient_rule(decision.offers, call, decision.level)  # wider than the command
        return MinimalGrant(rule, option)

    def _find_rule_option(self, rules: tuple[str, ...], call: CheckedCall, level: str) -> str:
        """Return a `--rule` for the fewest of `rules` with which a call runs at `level`, "" if all are not enough."""
        with suppress(ValueError):  # one cannot be written
            if self.decide(call, level, ahead=rules).is_granted:
                for candidate in rules:
                    fewer = tuple(other for other in rules if other != candidate)
                    rules = fewer if self.decide(call, level, ahead=fewer).is_granted else rules
                return " ".join(f"--rule {shlex.quote(rule)}" for rule in rules)
        return ""

    def _find_sufficient_rule(self, rules: Iterable[str], call: CheckedCall, level: str) -> str:
        """Return the first allow rule with which a call runs at `level`, "" if none does."""
        for rule in rules:
            with suppress(ValueError):  # it cannot be written
                if self.decide(call, level, [rule]).is_granted:
                    return rule
        return ""

    def _find_rule(self, call: CheckedCall, extra: tuple[PermissionRule, ...]) -> PermissionRule | None:
        """Return the rule that decides on a call, by a name, its network address or its paths; None if no
        rule does."""
        if self._settings is None or not (extra or self._has_rules()):
            return None
        from nexus_cli.rules.rule_set import RuleSet  # noqa: PLC0415

        rules = RuleSet((*(self._read_rules().rules if self._has_rules() else ()), *extra))
        return self._find_in(rules, call.tool, call)

    def _find_in(self, rules: RuleSet, tool: Tool, call: CheckedCall) -> PermissionRule | None:
        """Return the one of `rules` that decides on a call of `tool`: by a name, an address or its paths."""
        argument, otherwise = tool.named
        if argument:
            name = str(call.arguments.get(argument) or otherwise)
            has_patterns = any(rule.pattern and rule.names(tool) for rule in rules.rules)
            return rules.find_for_text(tool, self.find_whole_name(tool.name, name) if has_patterns else name)
        if address := str(call.arguments.get(tool.reaches, "")):
            return rules.find_for_text(tool, address)
        return rules.find_for_path(tool, list(call.targets.values()), self._project, self.added)

    def names_call(self, rules: Sequence[PermissionRule], call: CheckedCall) -> bool:
        """Return True if one of `rules`, which deny, names a call, also if that cannot be told of a command. Blocks."""
        from nexus_cli.rules.decide import decide_command  # noqa: PLC0415
        from nexus_cli.rules.rule_set import RuleSet  # noqa: PLC0415

        edits = call.tool.effect is Effect.EDIT and "Write" not in foreign_names(call.tool.name)
        tool = rule_tools()["edit_file"] if edits else call.tool  # Claude has one tool that edits
        naming = RuleSet(tuple(rule for rule in rules if rule.names(tool)))
        if naming.rules and call.tool.runs_commands:
            line, rules_of_tool = str(call.arguments[COMMAND]), naming.for_commands_of(call.tool)
            command_decision = decide_command(
                line, level=ALL, rules=rules_of_tool, cwd=self._cwd, project=self._project, confined=True
            )
            return command_decision.decision != "allow"
        return self._find_in(naming, tool, call) is not None

    def _list_variables(self, profile: ProfileName, *, is_walled: bool) -> dict[str, str]:
        """Return the variables of hooks for a command: outside of the sandbox those of the person's own, for a
        read-only one none that decides which programs run."""
        variables = {name: value for name, (value, is_personal) in self.variables.items() if is_walled or is_personal}
        is_reader = profile == "read"
        return {name: variables[name] for name in variables if not (is_reader and name.startswith(_PROGRAMS))}

    def find_refused(self, tool: Tool) -> Callable[[Path], bool]:
        """Return a predicate for real paths that a deny rule hides from `tool`, which walks folders."""
        if tool.effect is not Effect.READ or not self._has_rules():
            return lambda path: False
        from nexus_cli.rules.rule_set import find_by_path  # noqa: PLC0415

        refusing, project, added = self._read_rules().deny_rules_for_search(tool).rules, self._project, self.added
        return lambda path: bool(refusing) and find_by_path(refusing, (path,), project, added) is not None

    def is_denied(self, path: Path) -> bool:
        """Return True if a deny rule keeps `read_file` from a real path. Blocks the first time."""
        with self._lock:
            return self._has_rules() and self.find_refused(rule_tools()["read_file"])(path)

    def find_denial(self, kind: str, name: str) -> str:
        """Return the deny rule for the skill or agent (`kind`, as its tool is called) with this whole name, "" for
        none. Blocks the first time."""
        with self._lock:
            rule = self._read_rules().find_for_text(rule_tools()[kind], name) if self._has_rules() else None
        return f"deny {rule.text}" if rule is not None and rule.decision == "deny" else ""

    def is_tool_denied(self, tool: Tool) -> bool:
        """Return True if a rule denies every call of `tool`. Blocks the first time."""
        denying = tuple(rule for rule in self._list_rules() if rule.decision == "deny" and not rule.pattern)
        if not denying:
            return False
        from nexus_cli.rules.rule_set import RuleSet  # noqa: PLC0415

        rules, has_text = RuleSet(denying), bool(tool.named[0] or tool.reaches)
        return (rules.find_for_text(tool, "") if has_text else rules.find_for_path(tool, (), self._project)) is not None

    def _list_rules(self) -> Sequence[PermissionRule]:
        """Return the rules in force, without reading files that have none. Blocks the first time."""
        with self._lock:
            return self._read_rules().rules if self._has_rules() else ()

    def _has_rules(self) -> bool:
        """Return True if a settings file may have rules, without parsing it; look again in a turn after a change."""
        if self._settings is None:
            return False
        if self._rules is not None and not self._is_outdated:
            return bool(self._rules.rules)
        if self._names_rules is None:
            inner = folders_between(self._project, real_path(self._cwd))
            roots, names = (self._project, find_source(self._project), *inner), (f"{FOLDER}/config.toml", *RULES)
            theirs = (root / name for root in roots for name in names)
            self._names_rules = any(map(_names_rules, (places().settings, *theirs)))
        return self._names_rules

    def _read_rules(self) -> RuleSet:
        """Return the rules. If the file has become unreadable, the previous rules stay in force, with a warning."""
        if self._rules is None or self._is_outdated:
            from nexus_cli.rules.rule_set import read_rules  # noqa: PLC0415

            try:
                self._rules = read_rules(places(), self._project, rule_tools(), real_path(self._cwd))
            except NexusError as error:
                if self._rules is None:
                    raise
                line = f"{error}. The previous rules remain active"
                self._rules = replace(self._rules, problems=(*self._rules.problems, line))
            self._is_outdated = False
        return self._rules

    def _names_denied(self) -> bool:
        """Return True if a deny rule is for reading. The rules are read."""
        return bool(self._read_rules().of("deny", Effect.READ))

    def _find_denied_files(self, profile: ProfileName) -> DeniedFiles:
        """Return the files that deny rules hide from sandboxed commands. Looks once a turn, and after each command that
        may write; the caller must lock."""
        from nexus_cli.rules.denied_files import DeniedFiles, find_denied_files  # noqa: PLC0415

        if profile == "none":
            return DeniedFiles()
        added = self.added
        if added not in self._denied:
            cwd = real_path(self._cwd)
            self._denied[added] = find_denied_files(self._read_rules(), self._project, cwd, added)
        # Of a command that may write the next one is kept from what it makes.
        return self._denied[added] if profile == "read" else self._denied.pop(added)

    def _forget_rules(self) -> None:
        self._rules = self._names_rules = None
        self._denied = {}

    def begin_turn(self) -> None:
        """Let this turn look again for denied files, and for rules if the personal settings or the trusted files have
        changed."""
        self._denied = {}
        self._is_told = False
        stamp = _read_stamp()
        if stamp != self._stamp:
            self._stamp, self._names_rules, self._is_outdated = stamp, None, self._rules is not None

    def rules_in_force(self) -> RuleSet:
        """Return the rules in force. Blocks the first time."""
        with self._lock:
            return self._read_rules()

    def allowed_tools(self) -> set[str]:
        """Return the names of the tools that allow rules are about. Blocks the first time."""
        return {rule.tool for rule in self._list_rules() if rule.decision == "allow"}

    def pin_allowed(self, tools: Sequence[Tool]) -> None:
        """Keep the definitions of those `tools` of servers that a rule allows, unless earlier ones are kept.

        Blocks; raises `NexusError("internal", ...)` if that fails.
        """
        rules = (*parse_allowed(self.rules_ahead, COMMAND_LINE_ORIGIN), *self._list_rules())
        allowing = [rule for rule in rules if rule.decision == "allow"]
        pin_tools(tool for tool in tools if any(rule.names(tool) for rule in allowing))

    def accept_definitions(self, rule: str, tools: Sequence[Tool]) -> dict[str, DefinitionChange]:
        """Keep the definitions of those `tools` of servers that an allow rule names, as they are now.

        Returns what has changed of each since it was allowed, by name. Blocks; raises as `pin_allowed` does.
        """
        (allowing,) = parse_allowed((rule,), COMMAND_LINE_ORIGIN)
        named_tools = [tool for tool in tools if allowing.names(tool)]
        changes = {tool.name: change for tool in named_tools if (change := find_change(tool))}
        pin_tools(named_tools, replaces=True)
        return changes

    def store_rules(self, rules: Sequence[str]) -> None:
        """Add allow rules for this project to the personal settings, in force at once; may raise `NexusError`."""
        for rule in rules:
            self.add_rule(f"allow {rule}", str(find_source(self._project)))

    def add_rule(self, typed: str, folder: str = "") -> bool:
        """Add a rule (`rules.edit_rules.add_rule`), in force at once. Blocks."""
        from nexus_cli.rules.edit_rules import add_rule  # noqa: PLC0415

        added = add_rule(typed, rule_tools(), folder)
        self._forget_rules()
        self.rules_in_force()
        return added

    def remove_rule(self, typed: str) -> list[str]:
        """Remove a rule (`rules.edit_rules.remove_rule`), with effect at once, and return it. Blocks."""
        from nexus_cli.rules.edit_rules import remove_rule  # noqa: PLC0415

        removed = remove_rule(typed, self.rules_in_force())
        self._forget_rules()
        self.rules_in_force()
        return removed

    def make_sandbox(
        self, profile: ProfileName, *, asks: bool = True, stays: bool = False, hook: bool = False, is_auto: bool = False
    ) -> CommandSandbox:
        """Prepare the sandbox and environment of a command, or of a `hook`, in `profile`. Blocks; raises `OSError`.

        `asks` is False if nobody can be asked for more rights; `is_auto`: the level is auto. A command that `stays` in
        the background gets a `Confinement` of its own, which its caller closes; from then on commands share a network.
        """
        asks = asks or bool(self.rules_ahead)
        assert self._settings is not None
        from nexus_cli.sandbox.backend import Backend, BackendProbe  # noqa: PLC0415
        from nexus_cli.sandbox.denial import describe_denial  # noqa: PLC0415
        from nexus_cli.sandbox.sandbox_environment import sandbox_environment  # noqa: PLC0415

        probe = self.load(ALL if profile == "none" else ASK)
        with self._lock:
            denied = self._find_denied_files(profile)
            rights = self._make_rights(profile, denied.paths, probe)
            rights = rights.for_hook(places()) if hook else rights
            confinement, alone = self._find_confinement(rights, probe or BackendProbe(Backend.NONE), stays)
        env, removed = sandbox_environment(rights, os.environ, self._settings.env_pass)
        from nexus_cli.config.host_environment import (  # noqa: PLC0415
            IN_SESSION,
            add_own_program,
            host_environment,
            own_index,
        )

        env = host_environment(env, self._cwd)
        env |= {"PWD": str(self._cwd), IN_SESSION: "1"}  # PWD: not by the link that leads there
        add_own_program(env, places())
        is_walled = confinement.backend != "none"
        if is_walled:
            from nexus_cli.config.ledger_place import HIDDEN_DATA  # noqa: PLC0415

            env[HIDDEN_DATA] = str(places().data)
        notes = [*rights.notes, *([alone] if alone else [])]
        env |= {} if hook else self._list_variables(profile, is_walled=is_walled)
        if profile == "read":
            from nexus_cli.rules.read_only_environment import read_only_environment  # noqa: PLC0415

            env = read_only_environment(env) | own_index(os.environ, self._project)
        else:
            from nexus_cli.config.project_environment import use_project_environment  # noqa: PLC0415

            env, left_out = use_project_environment(env, self._project, self._cwd, is_sandboxed=is_walled)
            notes += [left_out] if left_out else []
        if rights.denied and not denied.is_whole:
            notes.append(f"deny rules match more than {len(denied.paths)} files; commands can read the rest")
        if rights.denied and rights.writable and confinement.backend == "landlock":
            notes.append("a new file in a folder with a denied file is not readable until the next command")
        untold = tuple(note for note in notes if note not in self._shown_warnings)
        self._shown_warnings.update(untold)

        def denial(command: str, text: str, status: int | None) -> str:
            is_told, self._is_told = self._is_told, self._is_told or (status not in (None, 0, 1) and profile == "read")
            describe = partial(
                describe_denial, rights, command, text, confinement.backend, has_loopback=confinement.has_loopback
            )
            return describe(asks=asks, status=status, is_told=is_told, is_auto=is_auto)

        return CommandSandbox(
            confinement if is_walled else None, env, untold, denial, partial(self._describe_missing, removed)
        )

    def _make_rights(self, profile: ProfileName, denied: Paths, probe: BackendProbe | None) -> SandboxProfile:
        """Return the rights of a command in `profile`; the caller must lock."""
        assert self._settings is not None
        from nexus_cli.rules.denied_files import find_write_denied_paths  # noqa: PLC0415
        from nexus_cli.sandbox.backend import Backend  # noqa: PLC0415
        from nexus_cli.sandbox.profile import make_profile  # noqa: PLC0415

        rights = make_profile(
            profile,
            project=self._project,
            cwd=self._cwd,
            own=places(),
            temp=self._find_temp(profile),
            added=self.added,
            write=self._settings.write,
            unix_sockets=self._settings.unix_sockets,
            denied=denied,
        )
        if profile not in ("write", "net"):
            return rights
        write_denied_paths, patterns = find_write_denied_paths(self._read_rules(), self._project, self.added)
        mounts = probe is not None and probe.backend in (Backend.BWRAP, Backend.SEATBELT)
        return replace(
            rights, write_denied_paths=write_denied_paths, write_denied_patterns=patterns, mounts_write_denied=mounts
        )

    def _describe_missing(self, removed: Sequence[str], command: str, output: str) -> str:
        """Return a line with the variables among those `removed` from commands that this one names, or all if it lists
        variables; each once."""
        lists, text = _LISTS_VARIABLES.search(command), f"{command}\n{output}"
        missing = [name for name in removed if name not in self._shown_warnings and (lists or name in text)]
        self._shown_warnings.update(missing)
        return f"[sandbox: without {', '.join(missing)} (setting sandbox.env_pass)]" if missing else ""

    def _find_temp(self, profile: ProfileName) -> Path | None:
        """Return the folder for temporary files of commands in `profile`: for `read` a part of the session's, so that
        no reader writes what a command with more rights uses later."""
        if profile == "none":
            return self._temp.path if self._temp else None
        folder = self._make_temp() / "read" if profile == "read" else self._make_temp()
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _make_temp(self) -> Path:
        from nexus_cli.sandbox.profile import TempFolder  # noqa: PLC0415

        self._temp = self._temp or TempFolder(places())
        return self._temp.path

    def temp_folder(self) -> Path:
        """Return the private folder for temporary files of the session's commands and hooks. Raises `OSError`."""
        with self._lock:
            return self._make_temp()

    def _find_confinement(self, profile: SandboxProfile, probe: BackendProbe, stays: bool) -> tuple[Confinement, str]:
        """Return the confinement of a command, and a note if it cannot share a network. The caller must lock."""
        from nexus_cli.sandbox.backend import Backend  # noqa: PLC0415
        from nexus_cli.sandbox.confinement import Confinement  # noqa: PLC0415
        from nexus_cli.sandbox.session_network import make_network  # noqa: PLC0415

        # Without bubblewrap a command has no loopback of its own.
        shares = profile.name == "write" and (stays or probe.backend is Backend.LANDLOCK)
        if shares and self.network is None and self._alone is None:
            self.network, self._alone = make_network(probe.backend, self._project)
        alone = (self._alone or "") if stays and profile.name == "write" else ""
        network = self.network if profile.name == "write" else None
        kind = f"{profile.name} {profile.claude_home or ''}"
        confinement = None if stays else self._confinements.get(kind)
        if confinement is None or confinement.profile != profile or confinement.network is not network:
            if confinement is not None:
                confinement.close()
            confinement = Confinement(profile, probe, network)
            if not stays:
                self._confinements[kind] = confinement
        return confinement, alone

    def mask_secrets(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Mask the values of variables that commands do not get; return the text and the names of those found in it."""
        from nexus_cli.sandbox.sandbox_environment import mask_secrets  # noqa: PLC0415

        return mask_secrets(text, os.environ, self._settings.env_pass if self._settings else ())

    def continue_from(self, earlier: CallPermission) -> None:
        """Take over the temporary files and the shown warnings of `earlier`, and close it: it decided for the same
        session until now."""
        self._temp, earlier._temp = earlier._temp, None
        self.network, earlier.network = earlier.network, None
        self._shown_warnings |= earlier._shown_warnings
        self.variables = earlier.variables
        earlier.close()

    def close(self) -> None:
        """Release sandboxes and temporary files. May be called twice."""
        for confinement in self._confinements.values():
            confinement.close()
        self._confinements.clear()
        if self._temp is not None:
            self._temp.close()
            self._temp = None
        if self.network is not None:
            self.network.close()
            self.network = None


def _read_stamp() -> tuple[tuple[int, ...], ...]:
    """Return the versions of the files that decide which rules are in force."""
    return read_version(places().settings), read_version(TRUST_RECORD.path)


def _names_rules(path: Path) -> bool:
    """Return True if a settings file, of ours or of Claude, may have rules: it contains the word."""
    try:
        data = read_beginning(path, MAX_BYTES)
        return b"rules" in data or b"permissions" in data
    except OSError:
        return False
