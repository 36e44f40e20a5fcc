"""Texts in the encodings that spreadsheet programs write, short and long, with and without known column names."""

import os
from pathlib import Path

import pytest

from evaluation.golden.encodings import decode
from evaluation.golden.table import read_table

FOLDER = Path(__file__).parents[2] / "data" / "tables"
JAPANESE = "質問,参照\n有給休暇は何日ですか,10日です\n"
KOREAN = "질문,정답\n연차 휴가는 며칠인가요?,15일입니다\n"
CHINESE = "问题,参考答案\n年假有几天,十天\n"
TAIWANESE = "問題,參考答案\n特休有幾天？,十天\n"
GERMAN = "Frage;Antwort\nWie viele Urlaubstage habe ich für das Jahr?;Es sind zwölf Tage\n"
FRENCH = "Question;Réponse attendue\nCombien de jours de congés à l’été ?;Dix jours, c’est réglé\n"
POLISH = "Pytanie;Odpowiedź\nIle dni urlopu mi przysługuje?;Dwadzieścia sześć dni, zgodnie z umową\n"
CZECH = "Otázka;Odpověď\nKolik dní dovolené mám?;Dvacet pět dnů, říká směrnice\n"
UNICODE = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")
RUSSIAN = "вопрос,ответ\nсколько дней отпуска,десять\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        *[(JAPANESE, name) for name in ("cp932", "shift_jis", "euc-jp", "iso-2022-jp")],
        *[(text, name) for text in (JAPANESE, KOREAN, CHINESE, GERMAN) for name in UNICODE],
        ("質問\t参照\n有給休暇は何日ですか\t10日です\n", "utf-16"),
        ("question,reference\nwhat,that\n", "utf-16-le"),
        # What only Windows adds to Shift_JIS; a Chinese reading of it would be full of rare characters.
        ("質問,回答\n①番目の㈱は？,№1です\n", "cp932"),
        ("質問,参照\nｶﾀｶﾅﾊﾝｶｸ,ﾃｽﾄ\n", "cp932"),
        ("商品名,質問,正解\nｶｰﾄﾞ会員,ﾎﾟｲﾝﾄの有効期限は?,有効期限は1年です。ｱﾌﾟﾘで確認できます\n", "cp932"),
        ("有給休暇日数,十日\n夏季休暇日数,五日\n", "cp932"),
        ("有給休暇日数,十日\n夏季休暇日数,五日\n", "euc-jp"),
        ("question,reference\nWhat is 有休?,10 days\n", "cp932"),
        ("question,reference\n出張の日当はいくらですか,2,000円\n", "euc-jp"),
        ("質問,参照\n" + "出張の日当はいくらですか。,日当は2,000円です。\n" * 50, "cp932"),
        # In the encoding of the West one of its cells reads like the name of a column.
        ("question,reference\n有給休暇は何日もらえますか,10日です\n日当はいくらですか,2000円です\n", "cp932"),
        ("有給休暇は何日もらえますか,10日です\n日当はいくらですか,2000円です\n", "cp932"),
        ("有給休暇は何日もらえますか,10日です\n", "cp932"),
        *[(CHINESE, name) for name in ("gbk", "gb18030")],
        ("question,reference\n其中草稿 {count} 行,没有能够评分的问题\n", "gb18030"),
        ("请先解决无法评分的原因,偏低的指标\n其中草稿 {count} 行,没有作答。\n", "gb18030"),
        ("年假天数,十天\n婚假天数,三天\n", "gbk"),
        ("question,reference\nWhat is 年假?,10 days\n", "gbk"),
        ("问题,参考答案\n" + "出差补贴是多少？,每天200元。\n" * 50, "gbk"),
        *[(TAIWANESE, name) for name in ("big5", "cp950", "gb18030")],
        ("您好,再見\n年假有幾天呢,十天\n", "big5"),
        ("question,answer\n請問特休假怎麼申請,向主管申請\n", "big5"),
        *[(KOREAN, name) for name in ("cp949", "euc-kr")],
        ("question,answer\n연차 휴가는 며칠인가요?,15일입니다\n", "cp949"),
        ("question,answer\nWhat is 연차?,10 days\n", "cp949"),
        ("연차 휴가는 며칠인가요?,15일입니다\n", "cp949"),
        *[(GERMAN, name) for name in ("cp1252", "latin-1")],
        ("Frage,Antwort\nWo?,Büro\n", "cp1252"),
        ("question,reference\nDon’t I get a café voucher?,You do\n", "cp1252"),
        ("question;answer\nOù est le café?;Là\n", "cp1252"),
        (FRENCH, "cp1252"),
        (FRENCH, "mac-roman"),
        *[(text, name) for text in (POLISH, CZECH) for name in ("cp1250", "iso8859-2")],
        *[(RUSSIAN, name) for name in ("cp1251", "koi8-r")],
        ("question,reference\nСколько дней отпуска?,Двадцать восемь\n", "koi8-r"),
        ("Ερώτηση;Απάντηση\nΠόσες ημέρες άδεια έχω;Δέκα ημέρες\n", "cp1253"),
        ("Soru;Cevap\nKaç gün izin hakkım var?;On dört gün, iş yılına göre değişir\n", "cp1254"),
        ("คำถาม,คำตอบ\nลาพักร้อนได้กี่วัน,สิบวัน\n", "cp874"),
        ("question,reference\nHow many days?,Ten\n", "ascii"),
        ("", "utf-8"),
        ("", "utf-8-sig"),
    ],
)  # fmt: skip
def test_a_text_is_read_in_the_encoding_that_it_was_written_in(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("name", ["korean_cp949_table.csv", "korean_cp949_table_english_header.csv"])
def test_a_table_that_a_korean_excel_saved_asks_what_stands_in_it(name: str) -> None:
    table = read_table(decode((FOLDER / name).read_bytes()) or "")
    assert [row.question for row in table.rows] == ["연차 휴가는 며칠인가요?", "출장 일당은 얼마인가요?"]
    assert all(row.reference for row in table.rows)


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + os.urandom(500),
        b"\x89PNG\r\n\x1a\n" + os.urandom(500),
        b"\x1f\x8b" + os.urandom(500),
        bytes(100),
        bytes(range(256)) * 4,
        JAPANESE.encode("utf-16")[:-1],
        # Encodings that no spreadsheet program writes.
        "question,reference\nHow many days?,Ten\n".encode("cp037"),
        "質問,参照\n有給休暇は何日ですか,10日です\n".encode("cp932").replace(b"\n", b"\xff\n"),
        # Two texts in one file, each in an encoding of its own.
        JAPANESE.encode() + CHINESE.encode("gbk"),
        JAPANESE.encode()[:-5] + b"\n",
    ],
    ids=["pdf", "png", "gzip", "zeros", "bytes", "cut", "ebcdic", "damaged", "two", "damaged utf-8"],
)
def test_what_is_a_text_in_no_encoding_is_none(data: bytes) -> None:
    assert decode(data) is None
