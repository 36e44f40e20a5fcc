"""Pictures written into a text, as bots and documents have them."""

import base64
import random
from collections.abc import Callable

import pytest

from evaluation.pictures import without_pictures
from evaluation.sample import read_answer, read_contexts, read_text
from tests.evaluation.pace import assert_linear

BYTES = random.Random(1).randbytes(3000)
DATA = base64.b64encode(BYTES).decode()
WRAPPED = base64.encodebytes(BYTES).decode()
PNG = f"data:image/png;base64,{DATA}"

DRAWING = "<svg xmlns='http://www.w3.org/2000/svg'>" + "<path d='M1 1 L2 2'/>" * 100 + "</svg>"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"10日です。\n\n![図]({PNG})", "10日です。\n\n[画像: 図]"),
        (f"10日です。![]({PNG})続きです。![]({PNG} \"図\")", "10日です。[画像]続きです。[画像]"),
        (f"図は![図](<{PNG}>)です", "図は[画像: 図]です"),
        (f'図は<img alt="図" src="{PNG}" width=20>です', "図は[画像]です"),
        (f"図は<IMG SRC='{PNG.replace('data', 'DATA')}'/>です", "図は[画像]です"),
        (f"図は{PNG}です", "図は[画像]です"),
        (f"図は data:image/jpeg;charset=utf-8;base64,{WRAPPED} です", "図は [画像]\n です"),
        (f"<svg><image href='{PNG}'/></svg> の図", "[画像] の図"),
        ("図は![](data:image/svg+xml," + "%3Csvg%20xmlns=%22a%22/%3E" * 20 + ")", "図は[画像]"),
        ("点は![](data:image/gif;base64,R0lGODlhAQABAAAAACw=)", "点は[画像]"),
        (f"音は[聞く](data:audio/mpeg;base64,{DATA})", "音は[聞く]([音声])"),
        (f"表は[開く](data:application/pdf;base64,{DATA})", "表は[開く]([データ])"),
        (f"The chart: ![chart]({PNG}) It rises.", "The chart: [image: chart] It rises."),
        (f"这是图 ![]({PNG})", "这是图 [图片]"),
        (f"図の中身は {DATA} です", "図の中身は [データ] です"),
        (f"図の中身は\n{WRAPPED}です", "図の中身は\n[データ]\nです"),
        (PNG, "[image]"),
        # Drawings: in an address with its signs as they are, and in the text itself.
        (f'図は<img src="data:image/svg+xml;utf8,{DRAWING}">です', "図は<img src=\"[画像]\">です"),
        (f"図は![図](data:image/svg+xml,{DRAWING.replace('<', '%3C')})です", "図は![図]([画像])です"),
        (f"図は{DRAWING}です。{DRAWING}", "図は[画像]です。[画像]"),
    ],
)  # fmt: skip
def test_a_placeholder_stands_for_it(text: str, left: str) -> None:
    assert without_pictures(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10日です。",
        "![図](https://example.com/a.png)",
        "画像は data:image/png;base64,iVBORw0KGgo のように書きます。",
        "data:text/plain,hello",
        "<svg width='9'><text>10日</text></svg>",
        "<svg> は閉じていない" + "図" * 999,
        "data: 10, image/png",
        "a" * 5000,
        "ACGT" * 1000,
        "=" * 5000,
        "-" * 5000,
        "https://example.com/" + "/".join(["abc123"] * 20) + "?q=" + "x" * 300,
        "eyJhbGciOiJIUzI1NiJ9." + DATA[:300],
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_pictures(text) == text


def test_the_reported_answer_is_short() -> None:
    answer = "10日です。\n\n![図](data:image/png;base64," + "iVBORw0KGgo" * 20000 + ")"

    assert read_answer(answer).text == "10日です。\n\n[画像: 図]"


def test_every_text_that_is_judged_is_read_so() -> None:
    text = f"10日です。![]({PNG})" * 50
    for field in ("question", "answer", "reference"):
        assert read_text(text, field) == "10日です。[画像]" * 50
    assert read_contexts([{"content": text}, text[:-1] + ") "]).texts == ["10日です。[画像]" * 50]


LONG: dict[str, Callable[[int], str]] = {
    "data": lambda n: "data:" * n,
    "heads": lambda n: "data:image/png;" * n,
    "brackets": lambda n: "![" * n,
    "drawings": lambda n: "<svg></svg>" * n,
    "open drawings": lambda n: "<svg>" * n,
    "drawings' addresses": lambda n: "data:image/svg+xml" * n,
    "data:, brackets": lambda n: "data:" + "![](" * n,
    "tags": lambda n: "data:" + "<img " * n,
    "an open tag": lambda n: "data: <img " + "a " * n,
    "pictures": lambda n: "![](data:image/png;base64,AAAA)" * n,
    "a picture": lambda n: "![](data:image/png;base64," + "A1b2" * n,
    "lines": lambda n: "data:image/png;base64," + ("A1b2" * 10 + "\n") * n,
    "runs": lambda n: ("A1b2" * 120 + " ") * n,
    "a blob": lambda n: "A1b2C3d4E5f6" * n,
    "text": lambda n: "有給休暇は10日です。" * n,
}


@pytest.mark.parametrize("kind", LONG)
def test_the_time_grows_with_the_length(kind: str) -> None:
    assert_linear(without_pictures, LONG[kind])
