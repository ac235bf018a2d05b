"""What tests of the tools share: a place to work in, a memory of files, and a way to run one tool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nexus_cli.core.message import ToolResult
from nexus_cli.core.services import Recall, SeenFileStore
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.registry import ToolRegistry
from nexus_cli.tools.schema import check_arguments


@dataclass
class Memory:
    """`SeenFileStore` and `Recall` in memory."""

    files: dict[str, str] = field(default_factory=dict)
    drops: dict[str, str] = field(default_factory=dict)
    recalls: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    def digest(self, path: str) -> str | None:
        return self.files.get(path)

    def note(self, path: str, digest: str, how: str) -> None:
        self.files[path] = digest
        self.notes.append((path, how))

    def recall(self, drop_id: str) -> str | None:
        self.count_recall(drop_id)
        return self.original(drop_id)

    def original(self, drop_id: str) -> str | None:
        return self.drops.get(drop_id)

    def count_recall(self, drop_id: str) -> None:
        self.recalls.append(drop_id)


@dataclass
class Desk:
    """A project and its tools."""

    project: Path
    memory: Memory = field(default_factory=Memory)
    live: list[str] = field(default_factory=list)
    output_cap: int = 8000
    extra: dict[type, Any] = field(default_factory=dict)
    pictures: int = 0

    @property
    def registry(self) -> ToolRegistry:
        return ToolRegistry(services={SeenFileStore: self.memory, Recall: self.memory, **self.extra})

    def context(self, cwd: Path | None = None) -> ToolContext:
        services, folder = self.registry.services, cwd or self.project
        return ToolContext(
            folder, self.project, self.output_cap, "c1", self.live.append, services, pictures=self.pictures
        )

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        tool = self.registry.get(name)
        assert tool is not None
        checked, faults = check_arguments(arguments, tool.parameters)
        assert not faults, faults
        foreseen = await tool.check(checked, self.context()) if tool.check else None
        result = await tool.run(checked, self.context())
        assert foreseen is None or result.error, f"said to fail before it is asked for: {foreseen}"
        return result

    def run(self, name: str, **arguments: Any) -> ToolResult:
        return asyncio.run(self.call(name, **arguments))

    def write(self, name: str, data: str | bytes) -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    project = tmp_path / "project"
    project.mkdir()
    return Desk(project)


@pytest.fixture(scope="session")
def new_desk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Desk]:
    """A fresh desk for each example of a property."""
    return lambda: Desk(tmp_path_factory.mktemp("desk"))
