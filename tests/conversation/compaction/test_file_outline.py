"""A few names of a file, in any language, at no cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.conversation.compaction.file_outline import LONGEST_NAME, MOST_NAMES, outline

FILES = {
    "a.py": ("import os\nclass A(B):\n    def inner(self): ...\nasync def go(): ...\nX = 1\n", ("A", "go")),
    "a.ts": (
        "export default class Foo<T> {\n}\nexport const bar = async (x) => 1\nfunction* baz() {}\n",
        ("Foo", "bar", "baz"),
    ),
    "a.rs": (
        "pub(crate) struct S;\nimpl<T> Trait for S {\n    fn inner() {}\n}\npub fn main() {}\n",
        ("S", "Trait", "main"),
    ),
    "a.go": ("package x\nfunc (s *Server) Serve() error {\n}\ntype Server struct {\n", ("Serve", "Server")),
    "README.md": ("# Title\ntext\n## Part two #\n#nope\n", ("Title", "Part two #")),
    "a.toml": ("[tool.x] # c\nkey = [1]\n[[bin]]\n", ("tool.x", "bin")),
    "a.bin": ("\x00\x01 nothing", ()),
    "empty": ("", ()),
}


@pytest.mark.parametrize("name", FILES)
def test_names_at_the_margin_are_found(name: str) -> None:
    text, names = FILES[name]
    assert outline(name, text) == names


@given(st.text(max_size=400), st.sampled_from(["a.py", "a.md", "a.toml"]))
def test_any_text_has_a_short_outline(text: str, name: str) -> None:
    found = outline(name, text)
    assert len(found) <= MOST_NAMES and all(0 < len(one) <= LONGEST_NAME and "\n" not in one for one in found)


def test_a_minified_file_is_read_in_no_time() -> None:
    assert outline("a.js", "export " * 200_000 + "\n" + "class A{}" * 50_000) == ("A",)
