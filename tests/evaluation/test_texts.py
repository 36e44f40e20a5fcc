"""The sentences: the same in every language, none left out, none without its place."""

import re
import string
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.languages import LANGUAGES, Language
from evaluation.texts import is_refusal, load_texts

ENTRIES = {language: load_texts(language)._entries for language in LANGUAGES}


def flat(entries: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in entries.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


SENTENCES = {language: dict(flat(entries)) for language, entries in ENTRIES.items()}


def places(sentence: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_language_has_the_same_names_in_the_same_order(language: str) -> None:
    assert list(SENTENCES[language]) == list(SENTENCES["ja"])


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_sentence_has_the_same_places_in_every_language(language: Language) -> None:
    differing = {
        name: (places(sentence), places(SENTENCES[language][name]))
        for name, sentence in SENTENCES["ja"].items()
        if places(sentence) != places(SENTENCES[language][name])
    }
    assert differing == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_reason_has_a_sentence(language: Language) -> None:
    assert set(ENTRIES[language]["reasons"]) == {reason.value for reason in Reason if reason}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_is_empty_or_has_space_at_its_ends_or_is_left_in_another_language(language: Language) -> None:
    kana, simplified = r"[\u3041-\u3096\u30a1-\u30fa]", r"[这么个们为问题资档检标评]"
    foreign = {"en": rf"{kana}|[\u4e00-\u9fff]", "zh": kana, "ja": simplified}[language]
    for name, sentence in SENTENCES[language].items():
        assert sentence.strip(), name
        if name not in {"aside", "separator", "list_separator", "dot", "with_quotes", "report.full_stop"}:
            assert sentence == sentence.strip(), name
        assert not re.search(foreign, sentence), (name, sentence)


@pytest.mark.parametrize("language", LANGUAGES)
def test_brackets_and_quotation_marks_are_those_of_the_language(language: Language) -> None:
    for name, sentence in SENTENCES[language].items():
        plain = re.sub(r"\{[^}]*\}", "", sentence)
        if language == "en":
            assert not re.search("[（）「」：，、。]", plain), (name, sentence)
        else:
            assert not re.search(r"[(),!?;]", plain.replace("%", "")), (name, sentence)


def test_values_fill_their_places_and_are_not_formatted_again() -> None:
    japanese = load_texts("ja")
    assert japanese.aside("文", "{remark}{0}") == "文（{remark}{0}）"
    assert japanese.get("more", count=3) == "ほか3件"
    assert japanese.reason(Reason.NONE, {}) == ""
    assert japanese.reason(Reason.NOT_TEXT, {"field": "answer"}).startswith("回答（answer）が文章ではありません")
    with pytest.raises(KeyError):
        japanese.get("no.such.name")


@pytest.mark.parametrize(
    "reply",
    [
        "I'm sorry, but I can't help with that.",
        "I’m unable to assist with this.",
        "As an AI, I cannot comply with this request.",
        "申し訳ありませんが、その質問にはお答えできません。",
        "ご要望には対応いたしかねます。",
        "对不起，我无法回答这个问题。",
        "抱歉，我不能协助。",
    ],
)
def test_refusals_are_recognised_in_three_languages(reply: str) -> None:
    assert is_refusal(reply)


@pytest.mark.parametrize("reply", ["", "verdict: 1", "資料に書かれています", "x" * 400 + "I can't help", "我认为支持"])
def test_other_replies_are_no_refusals(reply: str) -> None:
    assert not is_refusal(reply)
