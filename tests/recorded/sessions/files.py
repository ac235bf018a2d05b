"""What a project and a person bring along: instructions, facts, skills, images, files that change."""

from __future__ import annotations

import struct
import zlib

from recorded.person import Person
from recorded.sessions.answers import SHOP, call

SKILL = "---\nname: brew\ndescription: How tea is brewed here, for every question of it.\n---\nBoil, wait, pour.\n"


def instructions(p: Person) -> None:
    """NEXUS.md with an import, AGENTS.md beside it, the person's own, preferences; edited between two turns."""
    p.file("NEXUS.md", "# Rules\n- Prices are integers.\n- See @docs/style.md\n")
    p.file("AGENTS.md", "- Never read this: NEXUS.md is there.\n")
    p.file("docs/style.md", "- Two blank lines between functions.\n")
    p.file("../nexus/config/NEXUS.md", "- Answer in one line.\n")
    p.file("../nexus/config/PREFERENCES.md", "- I drink no coffee.\n")
    p.model("Understood.", "The old rule still stands in my text.")
    p.nexus("ask", "what are the rules?")
    p.file("NEXUS.md", "# Rules\n- Prices are floats.\n")
    p.nexus("ask", "-c", "and now?")
    p.model("A new session has the new rule.")
    p.nexus("ask", "what are the rules?")


def facts(p: Person) -> None:
    """Facts of the person and of the project, those that matter for what was said, one that the model remembers."""
    p.nexus("memory", "add", "The price of tea is kept in shop.py.")
    p.nexus("memory", "add", "Husam likes short answers.", "--slot", "user")
    p.model(call("remember", text="Tea is sold by weight."), "Noted.")
    p.nexus("ask", "--allow", "edit", "where is the price of tea?")
    p.model("By weight.")
    p.nexus("ask", "how is tea sold?")


def a_skill(p: Person) -> None:
    """A skill of the person: its description, its guide read by the model, and named by the person."""
    p.file("../.agents/skills/brew/SKILL.md", SKILL)
    p.model(call("skill", name="brew"), "Boil first.")
    p.nexus("ask", "how do I make tea?")
    p.model("Boil, wait, pour.")
    p.nexus("ask", "/brew now")


def a_repository(p: Person) -> None:
    """A folder below the top of a repository, with a package manager and a changed file."""
    p.file("shop/shop.py", SHOP)
    p.file("package.json", '{"name": "shop"}\n')
    p.file("package-lock.json", "{}\n")
    p.repository()
    p.file("shop/shop.py", SHOP + "\n# changed\n")
    p.model(call("grep", pattern="changed"), call("bash", command="git diff --stat"), "One line was added.")
    p.nexus("ask", "--allow", "all", "-C", "shop", "what has changed?")


def files_that_change(p: Person) -> None:
    """A file that was read changes on disk, another one goes; the model is told, and its edit of old text fails."""
    p.file("shop.py", SHOP)
    p.file("note.txt", "tea\n")
    p.model(call("read_file", path="shop.py"), call("read_file", path="note.txt"), "Read.")
    p.nexus("ask", "read both")
    p.file("shop.py", SHOP.replace("4", "6"))
    (p.folder / "note.txt").unlink()
    p.model(
        call("edit_file", path="shop.py", edits=[{"old": '"tea": 4', "new": '"tea": 5'}]),
        call("read_file", path="shop.py"),
        "It costs 6 already.",
    )
    p.nexus("ask", "-c", "--allow", "edit", "make tea cost 5")


def images(p: Person) -> None:
    """Images by `-f`, to a model of OpenAI and to one of Anthropic, and what is sent of them in the next turn."""
    p.environment |= {"ANTHROPIC_API_BASE": p.server.url, "ANTHROPIC_API_KEY": "sk-ant-nobody"}
    p.file("red.png", _png(b"\xff\0\0"))
    p.file("blue.png", _png(b"\0\0\xff"))
    p.model("Red.", "Both.")
    p.uses("openai/gpt-4o")
    p.nexus("ask", "-f", "red.png", "which colour?")
    p.nexus("ask", "-c", "-f", "blue.png", "and this one?")
    p.model("Red and blue.", "As I said.")
    p.uses("anthropic/claude-sonnet-4-5")
    p.nexus("ask", "-f", "red.png", "-f", "blue.png", "which colours?")
    p.nexus("ask", "-c", "are you sure?")


def _png(colour: bytes) -> bytes:
    """Return an image of 8 by 8 points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress((b"\0" + colour * 8) * 8, 0)) + chunk(b"IEND", b"")
    )


SESSIONS = (files_that_change, instructions, facts, a_skill, a_repository, images)
