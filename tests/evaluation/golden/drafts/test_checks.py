"""The checks of a draft's final text by code."""

from collections.abc import Sequence

import pytest

from evaluation.golden.drafts.checks import (
    Draft,
    Flaw,
    Known,
    bearing_quote,
    find_quote,
    flaw_of,
    is_too_general,
    not_told,
    points_at_passage,
)
from evaluation.golden.drafts.passages import Passage, read_passages
from evaluation.sample import Chunk

JA = "有給休暇は、入社して6か月たった社員に10日付与します。申請は3営業日前までです。"
EN = "Paid leave of 10 days is granted after six months. Ask three working days before."
ZH = "入职满6个月的员工有10天带薪年假。须提前3个工作日申请。"
KO = "입사 후 6개월이 지난 직원에게 유급휴가 10일을 부여합니다. 신청은 3영업일 전까지입니다."
RU = "Сотруднику предоставляется 10 дней отпуска после шести месяцев работы в компании без перерыва."


def passage(text: str, document: str = "規程.md") -> Passage:
    [found], _ = read_passages([Chunk(text * 3, document)])
    return found


def flaw(question: str, reference: str, quote: str, text: str = JA) -> Flaw | None:
    return flaw_of(Draft(question, reference, (find_quote(quote, text),)), [passage(text)])


# --- what holds ---


@pytest.mark.parametrize(
    ("question", "reference", "quote", "text"),
    [
        ("有給休暇は入社後いつ何日もらえますか", "入社6か月後に10日付与されます。", JA[:31], JA),
        ("有給 何日前に申請すればok?", "3営業日前までです。", "申請は3営業日前までです", JA),
        # A reference as short as this has no language.
        ("What must I use to connect?", "VPN", "Use the VPN.", "Use the VPN. " * 10),
        ("How many days of paid leave do I get?", "10 days after six months.", EN[:50], EN),
        ("带薪年假有多少天？", "入职满6个月有10天。", ZH[:20], ZH),
        ("유급휴가는 며칠입니까?", "6개월 후 10일입니다. 유급휴가입니다.", KO[:33], KO),
        # The number that the question brings along may stand in the reference.
        ("有給休暇は20日もらえますよね？", "いいえ、20日ではなく10日です。", JA[:31], JA),
    ],
)
def test_a_sound_draft_has_no_flaw(question: str, reference: str, quote: str, text: str) -> None:
    assert flaw(question, reference, quote, text) is None


# --- what does not ---


@pytest.mark.parametrize(
    ("question", "reference", "found"),
    [
        ("", "10日です", Flaw.INCOMPLETE),
        ("？？？", "10日です", Flaw.INCOMPLETE),
        ("有給休暇は何日ですか", " ", Flaw.INCOMPLETE),
        ("有給休暇は何日ですか" * 50, "10日です", Flaw.TOO_LONG),
        ("有給休暇は何日ですか", "10日です" * 500, Flaw.TOO_LONG),
        ("How many days of paid leave do I get?", "10日です", Flaw.WRONG_LANGUAGE),
        ("有給休暇は何日ですか", "You get 10 days of paid leave.", Flaw.WRONG_LANGUAGE),
        ("带薪年假有多少天？", "入职后有10天年假这么多。", Flaw.WRONG_LANGUAGE),
        ("この資料では有給休暇は何日ですか", "10日です", Flaw.POINTS_AT_PASSAGE),
        ("有給休暇は何日ですか", "資料によると10日です", Flaw.POINTS_AT_PASSAGE),
        ("有給休暇は、入社して6か月たった社員に10日付与します。", "10日です", Flaw.NOT_A_QUESTION),
        ("有給休暇の日数は10日に決まっています。", "10日です", Flaw.NOT_A_QUESTION),
        ("有給休暇の規程は、何を規定していますか？", "10日です", Flaw.TOO_GENERAL),
        # Another number than the quoted one.
        ("有給休暇は何日ですか", "11日です", Flaw.NUMBER_NOT_QUOTED),
        ("有給休暇は何日ですか", "10日で、20日まで増えます", Flaw.NUMBER_NOT_QUOTED),
    ],
)
def test_a_flaw_is_told(question: str, reference: str, found: Flaw) -> None:
    assert flaw(question, reference, JA[:31]) is found


def test_a_question_in_another_script_than_its_document_is_in_another_language() -> None:
    for text, question in (
        (KO, "How many days of leave?"),
        (EN, "유급휴가는 며칠입니까?"),
        (RU, "How many days of leave?"),
    ):
        assert flaw(question, question, text[:20], text) is Flaw.WRONG_LANGUAGE


def test_a_quote_that_stands_nowhere_is_told() -> None:
    assert flaw("有給休暇は何日ですか", "10日です", "有給休暇は10日間与えます") is Flaw.QUOTE_NOT_FOUND
    two = [passage(JA), passage("在宅勤務は週3日までできます。前日の17時までに連絡します。", "在宅.md")]
    assert flaw_of(Draft("どちらが先ですか、有給と在宅", "有給です", (JA[:31], "")), two) is Flaw.QUOTE_NOT_FOUND
    assert flaw_of(Draft("どちらが先ですか、有給と在宅", "有給です", (JA[:31],)), two) is Flaw.QUOTE_NOT_FOUND


def test_a_comparison_may_hold_what_is_computed_from_its_quotes() -> None:
    text = "日帰りの日当は1,000円、宿泊を伴う出張の日当は1日2,500円です。"
    draft = Draft("日帰りと宿泊の日当の差はいくらですか", "1,500円です。", (text,))
    assert flaw_of(draft, [passage(text)], "comparison") is None
    assert flaw_of(draft, [passage(text)]) is Flaw.NUMBER_NOT_QUOTED


@pytest.mark.parametrize("text", [JA, EN, ZH])
def test_the_reference_of_a_question_without_an_answer_is_no_flaw(text: str) -> None:
    language = passage(text).language
    question = {"ja": "有給休暇は買い取ってもらえますか", "en": "Can I sell my leave?", "zh": "年假可以折算成工资吗？"}[
        language
    ]
    assert flaw_of(Draft(question, not_told(language)), [passage(text)]) is None


@pytest.mark.parametrize(
    "text",
    [
        "この文書に記載された申請期限は？",
        "本資料の目的は何ですか",
        "資料では何日と書かれていますか",
        "本文によれば何日ですか",
        "上記の期限を過ぎるとどうなりますか",
        "資料に記載されている上限はいくらですか",
        "According to the passage, how many days?",
        "What does this document say about leave?",
        "Based on the text, what is the limit?",
        "Which of the rules listed above applies?",
        "What is stated in the given context about leave?",
        "The passage mentions 10 days. When?",
        "根据资料，年假有多少天？",
        "本文提到的期限是什么？",
        "文中的年假有多少天？",
        "上述规定从什么时候开始？",
        "passagesにある期限はいつですか",
    ],
)
def test_words_that_point_at_the_passage_are_seen(text: str) -> None:
    assert points_at_passage(text)


@pytest.mark.parametrize(
    "text",
    [
        "有給休暇の申請はどこでしますか",
        "出張の精算に必要な書類は何ですか",
        "社外秘の資料を喫茶店で開いてもよいですか",
        "資料請求の方法を教えてください",
        "文書管理規程はどの部署が担当していますか",
        "How do I ask for a quote from a supplier?",
        "Which documents do I need for a business trip?",
        "Where is the context menu?",
        "How do I read a text message on the phone?",
        "出差报销需要哪些资料？",
        "中文合同由谁审核？",
        "文件服务器的地址是什么？",
    ],
)
def test_words_about_other_things_are_no_pointers(text: str) -> None:
    assert not points_at_passage(text)


@pytest.mark.parametrize(
    "text",
    [
        "就業規則には何が定められていますか",
        "有給休暇について教えてください。",
        "有給休暇とは何ですか？",
        "規程の目的は何ですか",
        "年次有給休暇の規程はどこにあるか？",
        "在宅勤務の規程は、何を指しますか？",
        "What does the leave policy cover?",
        "What is the purpose of the policy?",
        "Tell me about paid leave.",
        "年假制度规定了什么？",
        "该制度的主要内容是什么？",
        "请介绍一下年假制度。",
    ],
)
def test_a_question_that_fits_any_passage_is_too_general(text: str) -> None:
    assert is_too_general(text)


@pytest.mark.parametrize(
    "text",
    [
        "有給休暇の申請方法を教えてください。",
        "有給休暇について、入社1年目は何日もらえるか教えてください。",
        "在宅勤務の日に何を打刻しますか",
        "宿泊費の上限は東京だといくらですか",
        "VPN つながらん。",
        "What does an employee have to submit after a trip?",
        "What is the limit of the hotel costs in Tokyo?",
        "Explain how to ask for leave when I am ill, and when.",
        "年假申请需要什么？",
    ],
)
def test_a_question_with_something_definite_is_not(text: str) -> None:
    assert not is_too_general(text)


@pytest.mark.parametrize(
    "question",
    [
        "それはいつまでですか",
        "この制度の対象者は誰ですか",
        "その場合の申請先は？",
        "When is it due?",
        "What does that include?",
        "它什么时候截止？",
        "该制度的对象是谁？",
    ],
)
def test_a_question_about_something_that_was_not_named_is_unclear(question: str) -> None:
    text = {"W": EN, "它": ZH, "该": ZH}.get(question[0], JA)
    assert flaw(question, {JA: "10日です", EN: "10 days", ZH: "10天"}[text], text[:20], text) is Flaw.UNCLEAR


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("欠勤した日、その日のうちに誰に連絡しますか", JA),
        ("その他の休暇は何日ありますか", JA),
        ("Is it possible to take half a day of leave?", EN),
        ("其他假期有多少天？", ZH),
        ("How long does it take to get paid leave?", EN),
        ("入职满6个月的人，其年假有多少天？", ZH),
    ],
)
def test_words_that_stand_for_something_named_are_clear(question: str, text: str) -> None:
    assert flaw(question, {JA: "10日です", EN: "10 days", ZH: "有10天年假"}[text], text, text) is None


@pytest.mark.parametrize(
    ("reference", "found"),
    [("いいえ、10日です。", None), ("20日ではなく10日です。", None), ("10日付与されます。", Flaw.OTHER_KIND)],
)
def test_a_false_premise_is_put_right_by_its_reference(reference: str, found: Flaw | None) -> None:
    draft = Draft("有給休暇は20日もらえますよね？", reference, (find_quote(JA[:31], JA),))
    assert flaw_of(draft, [passage(JA)], "false_premise") is found
    assert flaw_of(draft, [passage(JA)], "fact") is None


# --- quotes ---


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("申請は3営業日前までです。", "申請は3営業日前までです。"),
        ("申請は３営業日前まで です", "申請は3営業日前までです。"),
        ("10日付与します。 申請は3営業日前", JA),
        ("「申請は3営業日前までです」", "申請は3営業日前までです。"),
        ("申請は5営業日前までです", ""),
        ("日", ""),
        ("", ""),
    ],
)
def test_a_quote_is_the_texts_own_words(quote: str, found: str) -> None:
    assert find_quote(quote, JA) == found


def test_a_title_is_no_quote() -> None:
    text = f"# 年次有給休暇の規程（あおぞら文具店）\n{JA}"
    assert find_quote("年次有給休暇の規程（あおぞら文具店）", text) == ""
    assert find_quote("申請は3営業日前までです。", text) == "申請は3営業日前までです。"
    assert (
        bearing_quote("", text, Draft("規程は誰のものですか", "年次有給休暇の規程はあおぞら文具店のものです。")) == ""
    )


USUALLY, IN_TOKYO = "宿泊費は、1泊12,000円を上限に実費を支給します。", "東京23区に泊まるときの上限は、1泊15,000円です。"
TRIP = f"{USUALLY}{IN_TOKYO}朝食代は含められます。"


@pytest.mark.parametrize(
    ("question", "reference", "quote", "found"),
    [
        # The sentence beside the right one was quoted.
        ("宿泊費の上限は？", "1泊12,000円を上限に支給します。", "朝食代は含められます。", USUALLY),
        # None was.
        ("東京の宿泊費の上限は？", "東京23区の上限は1泊15,000円です。", "", IN_TOKYO),
        # Two together have both numbers.
        ("上限は？", "1泊12,000円、東京23区に泊まるときの上限は15,000円です。", "上限", USUALLY + IN_TOKYO),
        # What was quoted has the numbers: it stays.
        ("朝食は？", "朝食代は宿泊費に含められます。", "朝食代は含められます。", "朝食代は含められます。"),
        # No sentence says anything like it.
        ("日当は？", "日当は3,000円です。", "", ""),
        ("日当は？", "日当は別の規程によります。", "", ""),
    ],
)
def test_the_quote_is_what_bears_the_reference_out(question: str, reference: str, quote: str, found: str) -> None:
    assert bearing_quote(quote, TRIP, Draft(question, reference)) == found


# --- the same question again ---


def known(*questions: str) -> Known:
    result = Known()
    for question in questions:
        result.add(Draft(question, "", ()), "fact")
    return result


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("有給休暇は何日もらえますか", "有給休暇は、何日もらえますか？", True),
        ("有給休暇は何日もらえますか", "有給休暇は何日もらえるのですか", True),
        ("有給休暇は何日もらえますか", "出張の日当はいくらもらえますか", False),
        ("日帰り出張の日当はいくらですか", "宿泊出張の日当はいくらですか", False),
        ("在宅勤務は週に何日できますか", "在宅勤務は週に何日できるのでしょうか", True),
        ("2024年度の有給休暇は何日もらえますか", "2025年度の有給休暇は何日もらえますか", False),
        ("AプランではVPNを使えますか", "BプランではVPNを使えますか", False),
        ("How many days of paid leave do I get?", "How many days of paid leave do I get", True),
    ],
)
def test_the_same_question_in_nearly_the_same_words_is_known(one: str, other: str, same: bool) -> None:
    assert known(one).has(Draft(other, "別の答え", ("別の引用",)), "fact") is same


def test_the_same_answer_from_the_same_words_is_the_same_question_of_its_kind() -> None:
    seen = Known()
    seen.add(Draft("年休は何日ですか", "10日です", (JA[:31],)), "fact")

    again = Draft("入社半年でもらえる休暇の日数を教えて", "10日です。", (JA[:31],))

    assert seen.has(again, "fact")
    assert not seen.has(again, "messy")


def test_the_same_meaning_in_other_words_is_known_with_an_embedding_model() -> None:
    asked: list[list[str]] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.append(list(texts))
        return [[1.0, 0.1] if "休" in text else [0.0, 1.0] for text in texts]

    seen = known("有給休暇は何日もらえますか", "出張の日当はいくらですか")

    assert seen.has(Draft("年休の日数を教えて", "x", ("y",)), "fact", embed)
    assert not seen.has(Draft("VPNの接続方法は", "x", ("y",)), "fact", lambda _: [[1.0, -1.0]])
    assert [sorted(texts) for texts in asked] == [
        sorted(["年休の日数を教えて", "有給休暇は何日もらえますか", "出張の日当はいくらですか"])
    ]
