"""Token counters: they never raise, never reach out, agree with the tokenizer, and count each text once."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st
from search import sample, some

from nexus_cli.conversation.tokens import counter as tokens
from nexus_cli.conversation.tokens.counter import (
    BRIEF,
    LONG_WORD,
    OVERHEAD_PER_MESSAGE,
    PIECE,
    SimpleTokenCounter,
    StoredCounter,
    TiktokenCounter,
    brief_count,
    get_token_counter,
    pieces,
    table,
    tables,
)
from nexus_cli.core.attachment import IMAGE_TOKENS
from nexus_cli.core.json_value import compact
from nexus_cli.core.message import Message, Opaque, Part, Role, ToolCall
from nexus_cli.provider.model_names import litellm_folder

COUNTERS = {"cl100k": TiktokenCounter(), "o200k": TiktokenCounter("o200k_base"), "simple": SimpleTokenCounter()}
counters = pytest.mark.parametrize("counter", COUNTERS.values(), ids=COUNTERS)
strange = st.text(st.characters()) | st.sampled_from(
    ["<|endoftext|>", "<|im_start|>x", "\ud800", "\udfff\ud800", "\0", "a\u0301" * 50, "\U0001f469\u200d\U0001f467"]
)


class Store:
    """Counts in a dict, with a list of what was asked."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, bytes], int] = {}
        self.asked: list[bytes] = []

    def stored_count(self, encoding: str, digest: bytes) -> int | None:
        self.asked.append(digest)
        return self.kept.get((encoding, digest))

    def store_count(self, encoding: str, digest: bytes, tokens: int) -> None:
        self.kept[encoding, digest] = tokens


@pytest.fixture(scope="module")
def reference() -> dict[str, tiktoken.Encoding]:
    """tiktoken's own encodings, built from the same files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tables()[0]))
        return {name: tiktoken.get_encoding(name) for name in ("cl100k_base", "o200k_base", "p50k_base", "p50k_edit")}


@counters
@given(text=strange)
def test_no_text_makes_a_counter_raise(counter: Any, text: str) -> None:
    assert counter.count(text) >= (1 if text else 0)


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base", "p50k_base", "p50k_edit"])
@given(text=st.text(st.characters(blacklist_categories=["Cs"])) | st.text("aB'\u00e9\u4e00 \n\r\t0/<|>_", max_size=300))
def test_counts_are_those_of_tiktoken_itself(reference: dict[str, tiktoken.Encoding], encoding: str, text: str) -> None:
    assert _counter(encoding).count(text) == len(reference[encoding].encode_ordinary(text))


def _counter(encoding: str, made: dict[str, TiktokenCounter] = {}) -> TiktokenCounter:  # noqa: B006
    return made.setdefault(encoding, TiktokenCounter(encoding))


def test_special_tokens_are_counted_as_text() -> None:
    assert COUNTERS["cl100k"].count("<|endoftext|>") == 7


@counters
@pytest.mark.parametrize("run", sample(some([" ", "a", "\u6f22", "\n", "\ud800"], 2), 2, 1))
def test_a_million_times_one_character_is_counted(counter: Any, run: str) -> None:
    assert counter.count(run * 1_000_000) > 5000


@given(st.text("ab \n", max_size=400), st.integers(1, 60))
def test_pieces_join_to_the_text_and_none_is_too_long(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "PIECE", size)
        parts = list(pieces(text))
    assert "".join(parts) == text
    assert all(0 < len(part) <= size for part in parts) or not text


def test_counting_in_pieces_differs_little_from_counting_whole(reference: dict[str, tiktoken.Encoding]) -> None:
    code = Path(tokens.__file__).read_text() * 20
    assert len(code) > 10 * PIECE
    whole = len(reference["o200k_base"].encode_ordinary(code))
    assert abs(COUNTERS["o200k"].count(code) - whole) <= whole * 0.001


@given(st.text(st.characters()))
def test_simple_counting_is_a_quarter_of_the_length(text: str) -> None:
    assert SimpleTokenCounter().count(text) == (max(1, len(text) // 4) if text else 0)


@counters
def test_a_message_is_its_content_and_four(counter: Any) -> None:
    assert (OVERHEAD_PER_MESSAGE, counter.OVERHEAD_PER_MESSAGE) == (4, 4)
    assert counter.count_messages([]) == 0
    assert counter.count_messages([Message(Role.USER, "")]) == 4
    two = [Message(Role.USER, "Hello there"), Message(Role.ASSISTANT, "Hi")]
    assert counter.count_messages(two) == counter.count("Hello there") + counter.count("Hi") + 8


@counters
def test_tool_calls_count_name_id_and_arguments_as_json(counter: Any) -> None:
    call = ToolCall("c17", "read_file", {"path": "src/a.py", "lines": [1, 2]})
    count = counter.count
    assert counter.count_message(Message(Role.ASSISTANT, "", (call,))) == (
        4 + count("read_file") + count("c17") + count('{"path":"src/a.py","lines":[1,2]}')
    )
    assert counter.count_message(Message(Role.TOOL, "text", tool_call_id="c17")) == 4 + count("text") + count("c17")


def test_an_image_counts_the_same_whatever_its_size() -> None:
    counter = SimpleTokenCounter()
    small, large = (Message(Role.USER, "x", parts=(Part("image/png", b"0" * size),)) for size in (10, 10**6))
    assert counter.count_message(small) == counter.count_message(large) == 4 + 1 + IMAGE_TOKENS


def test_thinking_that_goes_back_is_counted_and_its_signature_is_not() -> None:
    data = {"message": {"thinking_blocks": [{"thinking": "abcd" * 10, "signature": "x" * 4000}]}}
    opaque = Opaque("anthropic", "m", json.dumps(data).encode())
    assert SimpleTokenCounter().count_message(Message(Role.ASSISTANT, "", opaque=opaque)) == 4 + 10
    deepseek = Opaque("deepseek", "m", b'{"message": {"reasoning_content": "abcdefgh"}}')
    assert SimpleTokenCounter().count_message(Message(Role.ASSISTANT, "", opaque=deepseek)) == 4 + 2


@given(st.binary() | st.sampled_from([b"[]", b'{"message": 5}', b'{"message": {"thinking_blocks": 3}}', b"null"]))
def test_opaque_bytes_of_any_kind_do_not_raise(data: bytes) -> None:
    SimpleTokenCounter().count_message(Message(Role.ASSISTANT, "", opaque=Opaque("p", "m", data)))


def test_json_that_cannot_be_written_does_not_raise() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert compact(circle) == "{}"
    assert compact({"a": {1, 2}.__class__}) == '{"a":"<class \'set\'>"}'


def test_an_unknown_encoding_is_refused_at_once_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="cl100k_base"):
        TiktokenCounter("o300k")


@pytest.mark.parametrize("encoding", ["gpt2", "r50k_base"])
def test_an_encoding_whose_table_is_not_here_counts_by_the_simple_rule(encoding: str) -> None:
    counter = TiktokenCounter(encoding)
    assert counter.count("12345678") == 2
    assert counter.estimated


@pytest.mark.parametrize("content", [None, b"", b"not a table at all\n", b"!! x\n", b"\xff\xfe\0\n"])
def test_a_missing_or_broken_table_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / tokens.TABLES["cl100k_base"]).write_bytes(content)
    monkeypatch.setattr(tokens, "tables", lambda: [tmp_path])
    assert TiktokenCounter().count("12345678" * 3000) == 6000


def test_a_table_with_holes_falls_back_instead_of_panicking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / tokens.TABLES["cl100k_base"]).write_bytes(b"YQ== 0\nYg== 1\n")
    monkeypatch.setattr(tokens, "tables", lambda: [tmp_path])
    assert TiktokenCounter().count("no such bytes in it") == 4


def test_without_tiktoken_the_simple_rule_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert isinstance(get_token_counter(), SimpleTokenCounter)
    assert TiktokenCounter().count("12345678") == 2


ENCODING = "class Encoding:\n    def __init__(self, *given, **named): {}\n    def encode_ordinary(self, text): {}\n"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "Encoding = None",
        "class Encoding: pass",
        "from tiktoken import _tiktoken",
        "import a_package_that_is_not_here",
        "raise ImportError('libgcc_s.so.1: cannot open shared object file')",
        "raise RuntimeError('broken')",
        "raise OSError('no such file')",
        "this is no Python",
        "def __getattr__(name): raise RuntimeError(name)",
        ENCODING.format("raise RecursionError", "return []"),
        ENCODING.format("pass", "raise AssertionError"),
        ENCODING.format("pass", "return None"),
    ],
)
def test_with_a_tiktoken_that_is_broken_the_simple_rule_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    package = tmp_path / "tiktoken"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiktoken"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    for counter in (get_token_counter(), TiktokenCounter("o200k_base")):
        assert counter.count("12345678" * 3000) == 6000
        assert counter.count_messages([Message(Role.USER, "12345678")]) == 6
        assert counter.estimated  # type: ignore[attr-defined]


@pytest.mark.parametrize("module", ["tiktoken", "litellm"])
@pytest.mark.parametrize("found", [None, object(), types.ModuleType("fake")])
def test_a_module_that_cannot_say_where_it_is_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, module: str, found: object
) -> None:
    monkeypatch.setitem(sys.modules, module, found)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)  # which importing litellm sets
    assert get_token_counter().count("12345678") == 2
    assert litellm_folder() is not None or module == "litellm"


def test_a_table_that_may_not_be_looked_at_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(name: str) -> Path:
        raise PermissionError(name)

    monkeypatch.setattr(tokens, "table", closed)
    assert TiktokenCounter().count("12345678") == 2


def test_an_interrupt_while_counting_is_not_swallowed() -> None:
    def interrupted(text: str) -> list[int]:
        raise KeyboardInterrupt

    counter = TiktokenCounter()
    counter.count("x")
    counter._encode = interrupted
    with pytest.raises(KeyboardInterrupt):
        counter.count("text")


def test_the_factory_prefers_tiktoken() -> None:
    counter = get_token_counter()
    assert isinstance(counter, TiktokenCounter)
    assert counter.encoding_name == "cl100k_base"
    assert isinstance(get_token_counter(use_tiktoken=False), SimpleTokenCounter)


def test_the_tables_are_found_without_the_network_or_a_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    for encoding in ("cl100k_base", "o200k_base", "p50k_base"):
        found = table(encoding)
        assert found is not None
        assert found.stat().st_size > 100_000
    assert table("gpt2") is None


def test_neither_tiktoken_nor_litellm_is_imported_before_a_text_is_counted() -> None:
    program = (
        "import sys; from nexus_cli.conversation.tokens.counter import get_token_counter\n"
        "c = get_token_counter(); c.count('')\n"
        "assert not {'tiktoken', 'litellm'} & set(sys.modules), 'too early'\n"
        "c.count('x'); assert 'tiktoken' in sys.modules and 'litellm' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Unloaded(TiktokenCounter):
    """A counter whose encoder must not be needed."""

    def count(self, text: str) -> int:
        raise AssertionError("the encoder was loaded")

    @property
    def estimated(self) -> bool:
        raise AssertionError("the encoder was loaded")


@given(st.text(st.characters(), min_size=BRIEF, max_size=300))
def test_a_text_is_counted_once_and_then_remembered(text: str) -> None:
    store, text = Store(), f"{'w' * LONG_WORD}{text}"
    first = StoredCounter(COUNTERS["o200k"], store).count(text)  # type: ignore[arg-type]
    assert first == COUNTERS["o200k"].count(text)
    assert StoredCounter(Unloaded("o200k_base"), store).count(text) == first
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    assert store.kept == {("o200k_base", digest): first}


def test_a_count_that_no_commit_has_stored_yet_is_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store, text = Store(), "w" * BRIEF
    monkeypatch.setattr(store, "store_count", lambda *given: None)
    counter = StoredCounter(TiktokenCounter("o200k_base"), store)
    first = counter.count(text)
    monkeypatch.setattr(counter, "_counter", Unloaded("o200k_base"))
    assert counter.count(text) == first and len(store.asked) == 1


@given(st.text(st.characters(), max_size=BRIEF - 1))
def test_a_short_text_needs_neither_encoder_nor_store(text: str) -> None:
    store = Store()
    assert StoredCounter(Unloaded(), store).count(text) == brief_count(text)
    assert not store.asked


def test_a_plain_text_of_a_page_needs_neither_encoder_nor_store() -> None:
    store, text = Store(), "Find out why tests/test_shop.py fails, mend it, and say what was wrong. " * 10
    assert StoredCounter(Unloaded(), store).count(text) == brief_count(text) and not store.asked
    assert 0.8 < brief_count(text) / COUNTERS["o200k"].count(text) < 1.25
    for other in (text + " \u00e9" * 99, text * 2, f"{text} {'x' * LONG_WORD}", " " * 100):
        assert StoredCounter(COUNTERS["o200k"], store).count(other) == COUNTERS["o200k"].count(other)  # type: ignore[arg-type]
    assert len(store.asked) == 4


def test_estimates_are_not_kept_as_counts() -> None:
    store = Store()
    assert StoredCounter(SimpleTokenCounter(), store).count("x" * 400) == 100
    assert StoredCounter(TiktokenCounter("gpt2"), store).count("x" * 400) == 100
    assert not store.kept


def test_counts_of_two_encodings_are_kept_apart() -> None:
    store, text = Store(), "\u6f22\u5b57\u4eee\u540d" * 40
    counts = [StoredCounter(COUNTERS[name], store).count(text) for name in ("cl100k", "o200k")]  # type: ignore[arg-type]
    assert counts[0] != counts[1]
    assert len(store.kept) == 2


def test_a_short_text_counts_a_token_for_each_word_and_for_eight_more_letters() -> None:
    assert [brief_count(text) for text in ("", " ", "a", "a b", "12345678")] == [0, 1, 1, 2, 3]
    assert [brief_count("x" * letters) for letters in (8, 9, 16, 17)] == [1, 2, 2, 3]
    assert brief_count("\n" * 9) == 1


def test_short_texts_are_estimated_within_a_fifth_in_sum() -> None:
    texts = (Path(tokens.__file__).read_text() + Path(__file__).read_text()).splitlines()
    short = [line for line in texts if 0 < len(line) < BRIEF]
    counted = sum(COUNTERS["o200k"].count(line) for line in short)
    assert abs(sum(map(brief_count, short)) - counted) < counted / 5
