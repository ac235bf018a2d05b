"""Front matter as other programs accept it."""

from __future__ import annotations

import pytest

from nexus_cli.text.front_matter import read_front_matter, split_guide


def test_values_that_are_no_yaml_by_themselves_are_text() -> None:
    text = """---
description: Plan: with *care*
argument-hint: [user prompt] [depth]
pattern: *.py
name: "quoted: so"
allowed-tools: [Bash, "Read"]
hooks:
  Stop:
    - hooks:
        - type: command
          command: >-
            uv run x.py
---
Body
"""
    found = read_front_matter(text)
    assert not found.problem and found.text == "Body"
    fields = dict(found.fields)
    assert fields["description"] == "Plan: with *care*" and fields["pattern"] == "*.py"
    assert fields["argument-hint"] == "[user prompt] [depth]" and fields["name"] == "quoted: so"
    assert fields["allowed-tools"] == "Bash, Read"


def test_a_hint_keeps_its_brackets_and_what_is_broken_stays_named() -> None:
    assert read_front_matter("---\nargument-hint: [file]\nn: 1\n---\nx").fields["argument-hint"] == "[file]"
    assert "not valid YAML" in read_front_matter("---\ndescription: |\n  a\n b: [\n---\nx").problem


@pytest.mark.parametrize(
    "text", ["a." * 3000 + "a = 1\n", "b = " + "[" * 3000 + "]" * 3000 + "\n", "c = ", "[" + "a." * 3000 + "a]\n"]
)
def test_an_agent_of_codex_that_is_nested_too_deeply_is_named(text: str) -> None:
    front = split_guide(f'developer_instructions = "Review."\n{text}', "a.toml")
    assert (front.problem, front.fields) == ("is not valid TOML", {})
