"""What is concluded of a run, in words: chat, page and spreadsheet say the same, and never more than is known."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import openpyxl
import pytest

from evaluation.languages import LANGUAGES, Language
from evaluation.report.page import render_html
from evaluation.report.run_summary import run_line, run_text
from evaluation.report.run_words import compared, remarks, verdict
from evaluation.report.spreadsheet import render_xlsx
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts, load_texts
from tests.evaluation.pages import Page
from tests.evaluation.sample_runs import failed, record, report_of, settings

JA = load_texts("ja")
METRICS = ("faithfulness", "context_recall")


def report(records: Sequence[RowRecord], language: Language = "ja", **changes: Any) -> RunReport:
    options = {name: changes.pop(name) for name in ("before", "compared_with") if name in changes}
    made = settings(language, **{"metrics": METRICS, "thresholds": {"faithfulness": 0.8}, **changes})
    return report_of(records, language, settings=made, **options)


def rows(*scores: float, first: int = 1) -> list[RowRecord]:
    return [
        record(row, f"質問{row}", faithfulness=score, context_recall=score)
        for row, score in enumerate(scores, start=first)
    ]


def failing(*numbers: int) -> list[RowRecord]:
    return [failed(row, f"質問{row}") for row in numbers]


def every_form(made: RunReport, texts: Texts) -> dict[str, str]:
    """All that is said of the run as a whole, by where."""
    sheet = openpyxl.load_workbook(io.BytesIO(render_xlsx(made, texts))).worksheets[0]
    cells = [str(cell) for row in sheet.iter_rows(values_only=True) for cell in row if cell is not None]
    return {
        "chat": run_text(made, texts),
        "summary": run_line(made, texts),
        "page": Page(render_html(made, texts)).text,
        "spreadsheet": "\n".join(cells),
    }


# --- the gate ---

PASSED = {"ja": r"(?<!不)合格(?!の)", "en": r"(?i)\bpass(ed|es)?\b", "zh": r"(?<!不)合格(?!的)"}
UNDECIDED = {"ja": "合否はまだ分かりません", "en": "Undecided", "zh": "暂时无法得出结论"}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(
    ("records", "changes"),
    [
        pytest.param([*rows(1.0), *failing(*range(2, 21))], {}, id="one of twenty"),
        pytest.param([*rows(*[1.0] * 19), *failing(20)], {}, id="all but one"),
        pytest.param([*rows(*[1.0] * 17), *failing(18, 19, 20)], {"max_failed": 0.1}, id="more than may"),
        pytest.param([*rows(1.0, 1.0), RowRecord(3, "質問")], {}, id="not finished"),
        pytest.param([*rows(0.1, 0.1), RowRecord(3, "質問")], {}, id="not finished and low"),
        pytest.param(failing(1, 2), {"max_failed": 1.0}, id="nothing scored"),
        pytest.param([record(1, "質問", faithfulness=None, context_recall=1.0)], {}, id="nothing to score"),
    ],
)
def test_no_form_says_passed_unless_the_run_has(
    records: list[RowRecord], changes: dict[str, Any], language: Language
) -> None:
    made, texts = report(records, language, **changes), load_texts(language)
    assert made.passed is None
    for where, said in every_form(made, texts).items():
        assert not re.search(PASSED[language], said), where
    told = verdict(made, texts)
    nothing_scored = texts.get("report.none_scored", of=made.done, cause="")
    assert told.startswith((UNDECIDED[language], nothing_scored))


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_forms_say_passed_when_it_has(language: Language) -> None:
    made, texts = report(rows(*[1.0] * 20), language), load_texts(language)
    assert made.passed is True
    for where, said in every_form(made, texts).items():
        assert re.search(PASSED[language], said), where


@pytest.mark.parametrize(
    ("records", "changes", "said"),
    [
        (
            [*rows(1.0), *failing(*range(2, 21))],
            {},
            (
                "合否はまだ分かりません。20件のうち19件を採点できませんでした"
                "（「採点できない行の許容割合（max_failed）」では0件まで）"
            ),
        ),
        (
            [*rows(*[1.0] * 17), *failing(18, 19, 20)],
            {"max_failed": 0.1},
            (
                "合否はまだ分かりません。20件のうち3件を採点できませんでした"
                "（「採点できない行の許容割合（max_failed）」では2件まで）"
            ),
        ),
        (
            rows(0.7, 0.5),
            {"thresholds": {"faithfulness": 0.8, "context_recall": 0.7}},
            (
                "不合格です。忠実性の平均 0.60 がしきい値 0.80 に届いていません。"
                "必要コンテキストの網羅性の平均 0.60 がしきい値 0.70 に届いていません"
            ),
        ),
        (
            rows(*[1.0] * 5),
            {"gate": "sure"},
            "不合格です。忠実性の平均 1.00 はしきい値 0.80 に届いていますが、信頼区間の下限 0.51 が届いていません",
        ),
        (
            rows(*[1.0] * 40),
            {"gate": "sure"},
            "合格です。しきい値を決めた指標は、どれも信頼区間の下限がしきい値に届いています",
        ),
        (
            [record(1, "質問", faithfulness=None, context_recall=1.0)],
            {},
            "合否はまだ分かりません。忠実性を採点できた質問がありません",
        ),
        # No thresholds: no verdict, and none is missed.
        ([*rows(1.0, 1.0), *failing(3)], {"thresholds": {}}, "3件のうち1件を採点できませんでした（問題なし 2件）"),
    ],
)
def test_the_headline_names_the_cause(records: list[RowRecord], changes: dict[str, Any], said: str) -> None:
    assert verdict(report(records, **changes), JA) == said


def test_a_metric_that_applies_to_no_row_is_named_beside_the_verdict() -> None:
    records = [record(row, f"質問{row}", faithfulness=1.0, context_recall=None) for row in range(1, 21)]
    made = report(records, thresholds={"faithfulness": 0.8, "context_recall": 0.8})
    assert made.passed is True
    assert "対象になる質問がなく、合否に含めていない指標：必要コンテキストの網羅性" in remarks(made, JA)


def test_the_surer_gate_marks_by_the_lower_end() -> None:
    heads = {
        "mean": "- ✅ **忠実性 1.00**（しきい値 0.80 以上）",
        "sure": "- ❌ **忠実性 1.00**（信頼区間の下限がしきい値 0.80 未満）",
    }
    for gate, head in heads.items():
        assert f"{head}\n  95% 信頼区間 0.51–1.00・採点 5件" in run_text(report(rows(*[1.0] * 5), gate=gate), JA)


# --- few rows ---

FEW = {"ja": "10件に満た", "en": "Fewer than 10 questions", "zh": "不足 10 个"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_few_rows_are_told_in_chat_page_and_spreadsheet(language: Language) -> None:
    texts = load_texts(language)
    for count, told in ((1, True), (9, True), (10, False)):
        said = every_form(report(rows(*[1.0] * count), language), texts)
        for where in ("chat", "page", "spreadsheet"):
            assert (FEW[language] in said[where]) is told, where


def test_repetitions_are_no_further_questions() -> None:
    records = [record(row, f"質問{row}", again, faithfulness=1.0) for row in range(1, 4) for again in range(1, 6)]
    assert any("10件に満た" in line for line in remarks(report(records, metrics=("faithfulness",), repeat=5), JA))


def test_the_metrics_with_few_rows_are_named_when_others_have_more() -> None:
    records = [
        *rows(*[1.0] * 5),
        *(record(row, f"質問{row}", faithfulness=1.0, context_recall=None) for row in range(6, 15)),
    ]
    said = remarks(report(records), JA)
    assert "採点した質問が10件に満たず、平均がまだ大きく変わりえる指標：必要コンテキストの網羅性" in said


# --- the comparison ---


def hard_ones_fail(language: Language = "ja") -> RunReport:
    """Issue 8: the ten hard questions scored 0.1 before and fail now, the easy ones went from 0.90 to 0.92."""
    before = [*rows(*[0.1] * 10), *rows(*[0.9] * 10, first=11)]
    now = [*failing(*range(1, 11)), *rows(*[0.92] * 10, first=11)]
    return report(now, language, before=before, compared_with="run #1")


@pytest.mark.parametrize("language", LANGUAGES)
def test_pairs_lost_to_failures_are_told_everywhere_and_nothing_is_better(language: Language) -> None:
    made, texts = hard_ones_fail(language), load_texts(language)
    better = texts.get("report.compared_better", before="run #1", metrics="").strip()
    for where, said in every_form(made, texts).items():
        assert all(f"質問{number}" in said for number in (1, 2, 3)), where
        assert "10" in said
        assert better not in said, where
    section = Page(render_html(made, texts)).section("comparison")
    assert texts.get("report.lost_pairs") in section
    assert texts.get("report.no_clear_difference") not in section


def test_the_sentence_names_the_first_questions_that_were_lost() -> None:
    assert compared(hard_ones_fail(), JA) == (
        "忠実性、必要コンテキストの網羅性は、「run #1」と今回のどちらかで採点できなかった質問が10件あるため、"
        "良し悪しを判断していません（「質問1」、「質問2」、「質問3」、ほか7件）"
    )


def test_better_by_zero_is_no_difference() -> None:
    # Every question gains 0.003 (cases/reports/23).
    made = report(rows(*[0.903] * 8), before=rows(*[0.9] * 8), compared_with="run #1")
    assert compared(made, JA) == "「run #1」と比べて、明らかな差はありません"
    for said in every_form(made, JA).values():
        assert "良くなった指標" not in said


def test_a_changed_reference_is_named() -> None:
    before = [replace(made, reference="10日です") for made in rows(*[0.5] * 8)]
    now = [replace(made, reference="10日です") for made in rows(*[1.0] * 8)]
    now[2] = replace(now[2], reference="20日です")
    said = compared(report(now, before=before, compared_with="run #1"), JA)
    assert said.endswith("参照（正解）が変わった質問が1件あり、参照を使う指標では比べていません（「質問3」）")
    assert "良くなった指標：忠実性 +0.50" in said


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (rows(1.0), [record(1, "別の質問", faithfulness=1.0)], "「run #1」と同じ質問がないため、比べられません"),
        (failing(1), failing(1), "「run #1」と今回の両方で採点できた質問がないため、比べられません"),
        (
            [*rows(*[1.0] * 8), RowRecord(9, "質問9")],
            rows(*[0.5] * 9),
            "「run #1」より良くなったかどうかは、すべての質問が終わってから判断します",
        ),
    ],
)
def test_what_can_not_be_compared_is_told(now: list[RowRecord], before: list[RowRecord], said: str) -> None:
    assert compared(report(now, before=before, compared_with="run #1"), JA) == said


def test_rows_to_which_a_metric_applies_once_are_told() -> None:
    now = [*rows(*[1.0] * 7), record(8, "質問8", faithfulness=None, context_recall=1.0)]
    page = Page(render_html(report(now, before=rows(*[0.5] * 8), compared_with="run #1"), JA))
    assert "一方の実行だけで対象になり、比べていない質問：忠実性（1件）" in page.section("comparison")


def test_few_pairs_have_a_picture_without_a_band_and_no_sign() -> None:
    page = Page(render_html(report(rows(1.0, 1.0), before=rows(0.5, 0.5), compared_with="run #1"), JA))
    section = page.section("comparison")
    assert section.count("質問が少なく判断できず") == 2
    assert "+0.50" in section
    bands = [band.attributes["width"] for band in page.all("rect", class_="band")]
    assert bands[2:] == ["0.00%", "0.00%"]


def test_questions_can_not_break_the_text() -> None:
    hostile = "|x| <b>*a*\n# [a](http://b.example)"
    before = [replace(made, question=hostile) if made.row == 1 else made for made in rows(*[0.9] * 9)]
    now = [failed(1, hostile), *rows(*[0.9] * 8, first=2)]
    said = run_text(report(now, before=before, compared_with="run #1"), JA)
    sentence = next(line for line in said.splitlines() if "良し悪しを判断していません" in line)
    assert not re.search(r"[<>|*\[\]]", re.sub(r"&#\d+;", "", sentence))
