"""What must hold where the wheel alone is installed: version, doctor, defaults, declared dependencies.

Run by `.ci/run` with that environment's interpreter, from another folder: `python -I tests/check_wheel.py CHECKOUT`.
`undeclared` is also used by the suite. Standard library only. Building and installing the wheel is left to `.ci/run`.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

OF_EXTRAS = {"psycopg": "ledger/postgres"} | dict.fromkeys(("mcp", "mcp_types", "anyio", "httpx2", "pydantic"), "mcp/")
OF_EXTRAS |= {"acp": "acp/", "harbor": "adapters/"}
"""By module that only an extra (or, for Harbor, the program that imports us) brings: which files may import it."""


def distribution(text: str) -> str:
    """The normalised name of the distribution that a requirement names."""
    found = re.match(r"[A-Za-z0-9._-]+", text)
    return re.sub(r"[-_.]+", "-", found.group()).lower() if found else ""


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a file at every depth, without their expressions, which are most of a tree."""
    found: list[ast.AST] = [tree]
    for node in found:
        yield node
        found += (
            one for one in ast.iter_child_nodes(node) if isinstance(one, ast.stmt | ast.excepthandler | ast.match_case)
        )


def third_party(package: Path) -> dict[str, str]:
    """Top-level modules that the files of `package` import, without the standard library, each with one place."""
    found: dict[str, str] = {}
    ours = sys.stdlib_module_names | {package.name}
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        names = {
            name for line in re.findall(r"^ *import +(\w.*)", text, re.MULTILINE) for name in re.findall(r"\w+", line)
        }
        if names.union(re.findall(r"^ *from +(\w+)", text, re.MULTILINE)) <= ours:
            continue  # to parse all files takes seconds
        for node in statements(ast.parse(text, str(path))):
            modules: list[str] = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                modules = [node.module]
            for module in modules:
                top = module.partition(".")[0]
                if str(path.relative_to(package)).startswith(OF_EXTRAS.get(top, "\0")):
                    continue
                if top not in sys.stdlib_module_names and top != package.name:
                    found.setdefault(top, f"{path.relative_to(package)}:{getattr(node, 'lineno', 0)}")
    return found


def undeclared(package: Path, requirements: Iterable[str]) -> list[str]:
    """Imports of `package` whose distribution is not among `requirements`; those of extras do not count."""
    declared = {distribution(text) for text in requirements if "extra ==" not in text}
    owners = importlib.metadata.packages_distributions()
    return [
        f"{place} imports {module}, which no declared dependency brings itself"
        for module, place in third_party(package).items()
        if not declared & {distribution(owner) for owner in owners.get(module, [])}
    ]


def files(folder: Path) -> dict[str, bytes]:
    """Every file under `folder` by its relative name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def problems(checkout: Path, scratch: Path) -> list[str]:
    """Everything that is wrong with the installed package, one line each; [] when it is sound."""
    import nexus_cli
    from nexus_cli.config.paths import defaults_dir

    package = Path(nexus_cli.__file__).parent
    if package.is_relative_to(checkout / "nexus_cli"):
        return [f"the package was imported from the checkout: {package}"]
    wrong = []
    if not defaults_dir().is_relative_to(package) or files(defaults_dir()) != files(checkout / "defaults"):
        wrong.append(f"the defaults found in {defaults_dir()} are not those of the checkout")
    if not (package / "docs").is_dir() or files(package / "docs") != files(checkout / "nexus_cli" / "docs"):
        wrong.append("the pages of `nexus docs` are not those of the checkout")
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(scratch), "NEXUS_HOME": str(scratch / "nexus")}
    nexus = str(Path(sysconfig.get_path("scripts")) / "nexus")
    version = importlib.metadata.version("nexus-cli")
    for command, expected in (
        ([nexus, "--version"], version),
        ([nexus, "doctor"], ""),
        ([nexus, "docs", "settings"], "max_steps"),
        ([nexus, "docs", "glossary"], "epoch"),
        ([sys.executable, "-m", "nexus_cli", "--version"], version),
        ([sys.executable, "-m", "pip", "check"], ""),
    ):
        done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, stdin=subprocess.DEVNULL)
        if done.returncode or expected.encode() not in done.stdout:
            wrong.append(f"{command} exits {done.returncode}: {(done.stdout + done.stderr).decode()}")
    wrong += tool_calls(checkout, scratch, nexus, environment)
    return wrong + undeclared(package, importlib.metadata.requires("nexus-cli") or [])


WIRES = {
    "openai/scripted": {"OPENAI_API_BASE": "{url}/v1", "OPENAI_API_KEY": "sk-scripted"},
    "anthropic/claude-sonnet-4-5": {"ANTHROPIC_API_BASE": "{url}", "ANTHROPIC_API_KEY": "sk-scripted"},
    "gemini/gemini-2.5-flash": {"GEMINI_API_BASE": "{url}/v1beta", "GEMINI_API_KEY": "scripted"},
}
"""A model of each wire form, and how it reaches the scripted server."""
SCRIPT = {
    "rules": [{"when": {"last_role": "tool", "contains": "the answer is 42"}, "then": "It says 42."}],
    "default": {"calls": [{"name": "read_file", "arguments": {"path": "note.txt"}}]},
}


def tool_calls(checkout: Path, scratch: Path, nexus: str, environment: dict[str, str]) -> list[str]:
    """A tool call through each wire form, with what is declared and nothing else installed."""
    project = scratch / "project"
    project.mkdir()
    (project / "note.txt").write_text("the answer is 42\n")
    script = scratch / "script.json"
    script.write_text(json.dumps(SCRIPT))
    command = [sys.executable, "-I", str(checkout / "tests" / "server" / "__main__.py"), "--script", str(script)]
    server = subprocess.Popen([*command, "--port", "0", "--lifetime", "120"], stdout=subprocess.PIPE)
    wrong = []
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        for model, variables in WIRES.items():
            reach = {name: value.format(url=url) for name, value in variables.items()}
            done = subprocess.run(
                [nexus, "ask", "--model", model, "--max-steps", "4", "what does note.txt say?"],
                cwd=project,
                env={**environment, "NO_PROXY": "127.0.0.1", **reach},
                capture_output=True,
                stdin=subprocess.DEVNULL,
            )
            if done.returncode or done.stdout != b"It says 42.\n":
                wrong.append(f"{model} exits {done.returncode}: {(done.stdout + done.stderr).decode()}")
    finally:
        server.terminate()
        server.wait()
    return wrong


def main(arguments: list[str]) -> int:
    """Check the package that this interpreter has installed against the checkout named first."""
    with tempfile.TemporaryDirectory() as scratch:
        wrong = problems(Path(arguments[0]).resolve(), Path(scratch))
    sound = "the wheel is sound: version, doctor, defaults, tool calls, declared dependencies"
    print("\n".join(wrong) if wrong else sound)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
