"""What counts as a key, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search import sample

from nexus_cli.core.errors import REDACTED
from nexus_cli.core.redact_secrets import redact

LOUD = {
    "OPENAI_API_KEY": "hunter2-my-key",
    "CI_TOKEN": "tok-plain",
    "APP_SECRET_VALUE": "quite ordinary",
    "AWS_SECRET_ACCESS_KEY": "ordinary/words/too",
}
QUIET = {"AWS_REGION": "us-east-1", "AWS_PROFILE": "default", "LANG": "C.UTF-8", "OTHER_API_KEY": "none", "X_TOKEN": ""}


@pytest.mark.parametrize("name", LOUD)
def test_the_value_of_a_key_variable_never_stays_whatever_it_looks_like(name: str) -> None:
    value = LOUD[name]
    assert redact(f"Incorrect API key provided: {value}.", environ=LOUD) == f"Incorrect API key provided: {REDACTED}."
    assert value not in redact(f'{{"k":"{value}"}}', environ=LOUD)


@pytest.mark.parametrize("value", [value for value in QUIET.values() if value])
def test_variables_that_hold_no_key_and_values_too_short_for_one_stay_readable(value: str) -> None:
    assert redact(f"in {value} now", environ=QUIET) == f"in {value} now"


def test_a_short_value_goes_as_a_word_of_its_own_only() -> None:
    assert redact("ollama: ollama_chat/x at ollamas", environ={"A_API_KEY": "ollama"}) == (
        f"{REDACTED}: ollama_chat/x at ollamas"
    )


def test_the_environment_of_the_process_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY_API_KEY", "plain words")
    assert redact("they were plain words") == f"they were {REDACTED}"


FORMS = [
    ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpw"),
    ("sent basic dXNlcjpwYXNzd29yZDEyMw==", "dXNlcjpw"),
    ("x-api-key: AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEf"),
    ('"X-Goog-Api-Key": "AbCdEfGhIj"', "AbCdEf"),
    ("https://user:passw0rd@host/v1 failed", "passw0rd"),
    ("AKIAIOSFODNN7EXAMPLE secret wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrX"),
    ("glpat-abcdefghij1234567890", "abcdefghij"),
    ("sk-abc123def456ghi", "abc123"),
]


@pytest.mark.parametrize(("text", "secret"), FORMS)
def test_the_forms_that_keys_have_are_found(text: str, secret: str) -> None:
    said = redact(text, environ={})
    assert secret not in said and REDACTED in said


@pytest.mark.parametrize("text", ["Incorrect API key provided: sk-1234.", "invalid key 'hunter2secret'", "Bearer abc"])
def test_a_line_about_a_failure_is_searched_for_more(text: str) -> None:
    assert REDACTED in redact(text, opaque=True, environ={})


@pytest.mark.parametrize(
    "text",
    ["a basic understanding of basic128bit", "commit 9b92668aa0e5d7a3e3b1f4c5d6e7f8a9b0c1d2e3", "authorization: ok"],
)
def test_a_conversation_keeps_its_prose_and_its_hashes(text: str) -> None:
    assert redact(text, environ={}) == text


NAMED = [
    ("DB_PASSWORD=correcthorsebatterystaple", "correct"),
    ("pwd=hunter2", "hunter2"),
    ("DB_PASS=Tr0ub4dor", "Tr0ub"),
    ("api_key: abcdefghijklmnop", "abcdef"),
    ("export SECRET_KEY=changeme", "changeme"),
    ("POSTGRES_PASSWORD: swordfish", "swordfish"),
    ("password: hunter2", "hunter2"),
    ('{"password":"swordfish", "user":"x"}', "swordfish"),
    (r"{\"password\": \"hunter2\"}", "hunter2"),
    ('password = "correct horse battery staple"', "horse"),
    ('password: "p@ss, w0rd"', "w0rd"),
    ("PASSWORD='a b, c'", "b, c"),
    (r'PASSWORD="a\"b1cdef"', "b1cdef"),
    ("secret = '''hunter2hunter2'''", "hunter2"),
    ("mysql --password swordfish -h db", "swordfish"),
    ("x --password=swordfish", "swordfish"),
    ('["--password", "hunter2"]', "hunter2"),
    ("x --api-key 0a1b2c3d", "0a1b"),
    ("https://h/?api_key=abcdefgh&page=1", "abcdefgh"),
    ("https://h/?page=1&token=Ab12cd34#top", "Ab12"),
    ("Authorization: Basic YWRtaW46YWRtaW4=", "YWRt"),
    ("-H 'Authorization: Basic dTpw'", "dTpw"),
    ("X-Auth-Token: swordfish", "swordfish"),
    ("<password>hunter2</password>", "hunter2"),
    ('os.environ["API_KEY"] = "abcdef123456"', "abcdef"),
    ('token: str = "abc123456"', "abc123"),
    ('password := "hunter2"', "hunter2"),
    ("'password' => 'hunter2'", "hunter2"),
    ("Server=x;User Id=sa;Password=Tr0ub4dor&3;", "dor&3"),
    ("AccountKey=abcd1234+/==;Endpoint=x", "abcd1234"),
    ("//h.example/:_authToken=abcd-1234-efgh", "1234"),
    ('"password": 86421357,', "8642"),
]


@pytest.mark.parametrize(("text", "secret"), NAMED)
def test_what_stands_behind_the_name_of_a_secret_goes_and_the_name_stays(text: str, secret: str) -> None:
    said = redact(text, environ={})
    assert secret not in said and REDACTED in said and said[:4] == text[:4]
    assert redact(said, environ={}) == said


ISSUED = [
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "SG.ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc",
    "dapi0123456789abcdef0123456789abcdef",
    "ya29.a0AfH6SMBxyzabcdefgh",
    "xoxz-1234567890-abcdef",
    "xapp-1-A012-34-abc",
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "hf_abcdefghijklmnopqrstuvwx",
    "https://discord.com/api/webhooks/123456/abcdefgh",
]


@pytest.mark.matrix
@pytest.mark.parametrize("key", ISSUED)
@pytest.mark.parametrize("around", ["{}", "see {}.", '{{"k": "{}"}}', "a\\n{}", "k={}&x=1"])
def test_keys_that_name_who_issued_them_need_no_name(key: str, around: str) -> None:
    said = redact(around.format(key), environ={})
    assert key[-6:] not in said and REDACTED in said and ("slack" in said) == ("slack" in key)


@pytest.mark.parametrize(
    ("address", "left"),
    [
        ("postgres://u:p@ss@h/db", "postgres://u:[redacted]@h/db"),
        ("redis://:hunter2@h:6379/0", "redis://:[redacted]@h:6379/0"),
        ("postgres://u:p/ss@h/db", "postgres://u:[redacted]@h/db"),
        ("amqp://u:p@h1,amqp://u:q@h2", "amqp://u:[redacted]@h1,amqp://u:[redacted]@h2"),
        ("https://u:pw@h/pkg@1.2", "https://u:[redacted]@h/pkg@1.2"),
        ("postgres://u:${PW}@h/db", "postgres://u:${PW}@h/db"),
        ("http://h:3000/@vite/client", "http://h:3000/@vite/client"),
    ],
)
def test_the_password_of_an_address_goes_up_to_its_host(address: str, left: str) -> None:
    assert redact(f"at {address} now", environ={}) == f"at {left} now"


ORDINARY = [
    "password = get_password()",
    "token: str",
    "max_tokens=100",
    "password: required",
    'os.environ["API_KEY"]',
    "secret santa",
    "PWD=/home/x",
    "OLDPWD=/home/x1/yy2",
    "total_token: 123456",
    "connect(password=password1)",
    "token = self._token1",
    "token = next(tokens1)",
    'api_key = os.environ["OPENAI_API_KEY"]',
    "password=$DB_PASSWORD1",
    "token: CancellationToken",
    "token: Optional[str] = None",
    "password: ${DB_PASSWORD1}",
    "TOKEN=$(cat /run/token1)",
    "password: <your-password-1>",
    'password: "{{ vault_password1 }}"',
    "secret: /run/secrets/db1",
    "password=True",
    '{"password": "must be at least 8 characters"}',
    '{"token": {"type": "string"}}',
    'if token == "identifier1":',
    "use --password to set it, or --token explicitly when asked",
    "[--password PASSWORD] [--token TOKEN]",
    "--password-file /a1234567",
    "The token: a 128-bit number",
    "secret: never tell anybody",
    "Authorization: Basic authentication is required",
    "Authorization: Bearer $TOKEN",
    "Bearer header, matching",
    "authorization: enabled",
    "password: ********",
    'h = {"X-API-Key": resolved_key}',
    "USERNAME_PASSWORD: Represents usernames",
    "hf_model_name",
    "password != other1234",
    "api_key=OPENAI_API_KEY",
    "secret_key: !Ref MySecret1",
    'f"password={password1}"',
    'f"token={user}-x12345678"',
    "xoxo-and-kisses",
    "token = offset+12",
    "passwords: many12345",
    "kubectl create secret generic db-user-1",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_prose_and_code_that_name_a_secret_stay(text: str) -> None:
    assert redact(text, environ={}) == text


SECRET_NAMES = st.sampled_from(
    ["password", "db_password", "DB_PASSWORD", "pwd", "clientSecret", "api-key", "apiKey", "API_TOKEN", "access_token"]
)
PLACES = st.sampled_from(
    [
        "{}={}",
        "{} = {}",
        "{}: {}",
        '"{}": "{}"',
        "'{}': '{}'",
        '{} = "{}"',
        "--{}={}",
        "--{} {}",
        "x?a=1&{}={}&b=2",
        "export {}='{}'",
        r"{{\"{}\": \"{}\"}}",
        "<{}>{}</x>",
        "run({}='{}')",
    ]
)
VALUES = st.from_regex(r"[a-zA-Z]{1,5}[0-9]{4}[a-zA-Z0-9!@#%^~*+_-]{1,40}[a-z0-9]{2}", fullmatch=True)


@given(name=SECRET_NAMES, place=PLACES, value=VALUES, before=st.sampled_from(["", "see ", "\n", "a=1; "]))
def test_a_value_with_digits_goes_in_every_place(name: str, place: str, value: str, before: str) -> None:
    text = before + place.format(name, value)
    said = redact(text, environ={})
    assert value not in said and said == redact(said, environ={})
    assert said.replace(REDACTED, value) == text


WORDS = st.sampled_from(["user", "next", "get", "default", "session", "request", "load", "value", "config", "item"])
NAMES = st.one_of(
    st.lists(WORDS, min_size=1, max_size=3).map("_".join),
    st.lists(WORDS, min_size=1, max_size=3).map(lambda words: words[0] + "".join(w.title() for w in words[1:])),
    st.lists(WORDS, min_size=2, max_size=3).map(".".join),
)
CODE = st.one_of(
    NAMES,
    st.tuples(NAMES, st.sampled_from(["()", "[0]", "(x1234, y)", '["API_KEY"]', " or None", " + 1"])).map("".join),
    st.sampled_from(["None", "True", "str", "bytes | None", "${X1234567}", "$X1234567", "<x1234567>", "/run/x12345"]),
)


@given(
    name=st.sampled_from(["password", "db_password", "pwd", "clientSecret", "apiKey", "access_token"]),
    place=st.sampled_from(["{} = {}", "{}={}", "{}: {}", "f({}={}, y=1)", "{{{}: {}}}", "if {}: {}", "{} {}"]),
    value=CODE,
)
def test_a_value_that_is_code_stays_in_every_place(name: str, place: str, value: str) -> None:
    text = place.format(name, value)
    assert redact(text, environ={}) == text


@given(st.text(max_size=300))
def test_what_was_redacted_is_not_redacted_again(text: str) -> None:
    said = redact(text, environ={})
    assert redact(said, environ={}) == said


SLOW = (
    "basic ",
    "x-api-key",
    "authorization:",
    "a-",
    "1",
    "sess-",
    "key '",
    "f",
    "AKIA0",
    "/",
    "pwd=(",
    "pwd=/",
    'pwd="',
    "pwd='\"",
    r"pwd=\"",
    "pwd=&a",
    "pwd: a_",
    "pwd=aA",
    "--token ",
    "a://b:",
    "<pwd>",
    "xoxo-",
    "pwd='''",
    "hf_a",
)


@pytest.mark.parametrize("length", [43, 199, 4_000])
@pytest.mark.parametrize("end", ["=", "a", "9a", "_"])
def test_a_long_word_of_one_letter_is_judged_at_once(length: int, end: str) -> None:
    assert redact(f'token = "{"A" * length}{end}"', environ={}) is not None


@pytest.mark.matrix
@pytest.mark.parametrize("piece", sample(SLOW, 4))
def test_no_text_makes_the_search_slow(piece: str) -> None:
    assert redact(piece * (20_000 // len(piece)), opaque=True, environ={}) is not None
