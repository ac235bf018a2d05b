"""Bytes become text: marks, UTF-8 with stray bytes, other encodings; and the way back, byte for byte."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.core.attachment import image_type
from nexus_cli.core.decode import decode

DIFF = "diff --git a/menü.txt b/menü.txt\n+Größe 10 €, “quoted” – 日本語\n"
CHINESE = "请先阅读说明文件，然后运行测试。不要修改没有要求修改的代码，文件编码必须保持不变。"
SAMPLES = {
    "cp1251": "Правила проекта: всегда запускать тесты перед ответом. Всё ещё не готово, ёлки.",
    "koi8_r": "Правила проекта: всегда запускать тесты перед ответом. Не меняйте лишнего.",
    "gb18030": CHINESE,
    "big5": "請先閱讀說明文件，然後執行測試。不要修改沒有要求修改的程式碼。",
    "cp932": "日本語の指示です。必ずテストを実行する。ファイルを変更しないこと。",
    "euc_jp": "日本語の指示です。必ずテストを実行する。ファイルを変更しないこと。",
    "cp1253": "Εκτελέστε πρώτα τις δοκιμές και μετά απαντήστε. Μην αλλάζετε κώδικα που δεν σας ζητήθηκε.",
    "cp949": "먼저 설명서를 읽고 테스트를 실행하십시오. 요청하지 않은 코드는 수정하지 마십시오.",
}

LATIN = (
    ("cp1252", "Le café préféré de l'élève, créé à Noël, où l'on déjeune très tôt : ça a plu à sa sœur."),
    ("cp1252", "Règles du projet : exécuter les tests avant de répondre. Le système est prêt à être déployé."),
    ("cp1252", "# Paramètres généraux\nDELAI = 30  # délai après lequel la requête échoue, désactivé par défaut\n"),
    ("cp1252", "Größe überprüfen, Änderungen müssen natürlich für alle Gäste möglich sein. Straße, Füße, schön."),
    ("cp1252", "El niño comió piñas. ¿Dónde está el archivo de configuración? ¡Atención! Según la versión número 8."),
    ("cp1252", "A configuração não está disponível. Atenção: execução das funções padrão é obrigatória."),
    ("cp1252", "La città è bella perché c'è già la libertà. Così può andare più in là, però non è la verità."),
    ("cp1252", "Räksmörgås är gott på hösten när åskan går över ån. Kör alltid testerna först."),
    ("cp1252", "Blåbærsyltetøy på brød er godt når det ikke er så mørkt. Kjør testene før du svarer."),
    ("cp1252", "Það er ekki hægt að opna skrána. Keyrðu alltaf prófanir áður en þú svarar."),
    ("cp1250", "Właściwości pliku są określone w konfiguracji; użytkownik musi być zalogowany, żeby je zmienić."),
    ("cp1250", "Neměňte kód, o který nikdo nežádal. Uživatel musí být přihlášen, aby jej mohl změnit."),
    ("cp1250", "Árvíztűrő tükörfúrógép. Először futtassa a teszteket, és csak azután válaszoljon a kérdésre."),
    ("iso8859_2", "Zażółć gęślą jaźń. Proszę najpierw uruchomić testy, a następnie odpowiedzieć."),
    ("cp1254", "Önce testleri çalıştırın, sonra yanıt verin. Değiştirilmesi istenmeyen kodu değiştirmeyin."),
)


@given(st.binary(max_size=400))
def test_what_is_text_comes_back_byte_for_byte_and_can_be_sent(data: bytes) -> None:
    read = decode(data)
    if read is not None:
        read.plain.encode()
        if read.errors != "replace":
            assert read.encode(read.text) == data


@pytest.mark.parametrize("seed", range(20))
def test_a_stray_byte_in_utf_8_costs_that_byte_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    text = DIFF * rng.randint(1, 30)
    at = rng.randint(0, len(text))
    stray = bytes([rng.choice([0x80, 0xFF, 0xE9, 0xA4, 0xC3])])
    read = decode(text[:at].encode() + stray + b"\n" + text[at:].encode())
    assert read is not None and read.encoding == "utf-8"
    assert read.plain == text[:at] + "\ufffd\n" + text[at:]
    assert read.encoding_note == "1 byte is not UTF-8 and is shown as \ufffd"


def test_one_letter_in_utf_8_outweighs_one_stray_byte() -> None:
    read = decode("a long English text, one é".encode() + b" and one \xff\n")
    assert read is not None and read.plain == "a long English text, one é and one \ufffd\n"


def test_utf_8_that_ends_inside_a_character_is_utf_8() -> None:
    read = decode("only English and a dash –".encode()[:-1])
    assert read is not None and (read.encoding, read.plain[-4:-1]) == ("utf-8", "sh ")


@pytest.mark.parametrize("encoding", sorted(SAMPLES))
@pytest.mark.parametrize("times", [1, 50])
def test_other_encodings_are_never_taken_for_broken_utf_8(encoding: str, times: int) -> None:
    read = decode((SAMPLES[encoding] * times).encode(encoding))
    assert read is not None and read.plain == SAMPLES[encoding] * times
    assert "is not UTF-8; decoded as" in read.encoding_note


@pytest.mark.matrix
@pytest.mark.parametrize(("encoding", "text"), LATIN)
@pytest.mark.parametrize("times", [1, 20])
def test_a_latin_text_is_read_in_the_table_of_its_language(encoding: str, text: str, times: int) -> None:
    read = decode((text * times).encode(encoding))
    assert read is not None and read.plain == text * times


def test_letters_far_behind_the_beginning_decide_too() -> None:
    text = "plain line\n" * 60_000 + SAMPLES["cp1251"] + "\nplain line" * 1000
    read = decode(text.encode("cp1251"))
    assert read is not None and read.plain == text


def test_a_nul_in_what_is_not_utf_8_is_binary() -> None:
    assert decode(b"\x7fELF\0\0\xff\xfe\x80" * 100) is None
    assert decode(b"text\0text") is not None


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", ""),
        (b"", ""),
    ],
)
def test_images_are_known_by_their_first_bytes(head: bytes, kind: str) -> None:
    assert image_type(head) == kind
