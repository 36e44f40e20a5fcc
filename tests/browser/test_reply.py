"""What stands in the chat, in a real browser with the rules of Dify's chat, in columns as wide as a phone's."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from devhost.render import COLUMNS, MARGINS, page
from evaluation.diagnosis import diagnose
from evaluation.errors import EvaluationError, Reason
from evaluation.languages import LANGUAGES, Language
from evaluation.metrics.documents import DocumentScores
from evaluation.report.block import block
from evaluation.report.markdown import list_line
from evaluation.report.run_summary import run_text
from evaluation.result import MetricResult
from evaluation.scorecard import Scorecard
from evaluation.texts import load_texts
from tests.browser.browser import Browser
from tests.evaluation.sample_runs import sample_run

LONG = {
    "ja": "有給休暇は入社して6か月たつと10日付与され、使わなかった日数は翌年度まで繰り越せます。1時間単位でも取れます",
    "en": "New employees get ten days of paid leave after six months, and unused days carry over to the next year",
    "zh": "员工入职满六个月后可享受十天带薪年假，未使用的天数可以结转到下一年度，也可以按小时请假",
}
# A word that nothing divides, such as a long file name.
WORD = "employment_regulations_2026_revised_" * 3 + ".pdf"
# Elements that reach out of the column, or that have to be scrolled sideways to be read.
CUT = """
(() => {
  const reply = document.querySelector(".reply"), style = getComputedStyle(reply), box = reply.getBoundingClientRect();
  const right = box.right - parseFloat(style.paddingRight) + 0.5;
  return [...reply.querySelectorAll("*")]
    .filter(each => each.getBoundingClientRect().right > right
                    || each.clientWidth && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.tagName + ": " + each.textContent.slice(0, 40));
})()
"""
# The visible pieces of text that match a pattern, each with the number of lines that it stands on.
SHOWN = """
(() => {
  const walker = document.createTreeWalker(document.querySelector(".reply"), NodeFilter.SHOW_TEXT), found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    for (const match of node.data.matchAll(new RegExp(%s, "gu"))) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width);
      if (node.parentElement.checkVisibility()) found.push([match[0], new Set(boxes.map(box => box.top)).size]);
    }
  return found;
})()
"""
NUMBER = "[−+±]?\\\\d\\\\.\\\\d\\\\d"
MARK = "✅|⚠️|❌"
UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true)"
USED = {
    "judge": "gpt-4o-mini-with-a-long-name-2026-11-30",
    "usage": {"judge_calls": 9, "total_tokens": 12345, "price": 0.00213, "currency": "USD"},
    "contexts": {"dropped": 1},
}


def results(language: Language) -> dict[str, MetricResult]:
    text = LONG[language]
    claims = [{"text": text, "verdict": 0, "kind": "contradicted", "reason": text}, {"text": WORD, "verdict": 1}]
    chunks = [{"rank": n, "title": WORD, "text": text, "verdict": n % 2, "reason": text} for n in (1, 2, 3)]
    questions = {"method": "judged", "questions": [{"text": text, "similarity": 0.67}]}
    no_reference = EvaluationError(Reason.NO_REFERENCE)
    return {
        "faithfulness": MetricResult("faithfulness", "1", "scored", 0.5, details={"claims": claims}),
        "answer_relevancy": MetricResult("answer_relevancy", "1", "scored", 0.67, details=questions),
        "context_recall": MetricResult.without_score("context_recall", "1", no_reference),
        "context_precision": MetricResult("context_precision", "1", "scored", 5 / 6, details={"chunks": chunks}),
    }


def of_four_tools(language: Language) -> str:
    texts = load_texts(language)
    return "\n".join(list_line(result, texts, 0.7, dropped=1) for result in results(language).values())


def of_the_scorecard(language: Language) -> str:
    documents = DocumentScores(1.0, 1.0, 0.5, (WORD,), 2)
    found = results(language)
    card = Scorecard(found, {}, documents, diagnose(found, chunks=3, documents=documents))
    return block(card, load_texts(language), USED)


def of_a_run(language: Language) -> str:
    return run_text(sample_run(language), load_texts(language))


def of_a_strict_run(language: Language) -> str:
    """Against the lower ends of the intervals, with names that nothing divides."""
    named = replace(sample_run(language, gate="sure"), name=WORD, app_name=WORD, compared_with=WORD)
    return run_text(named, load_texts(language))


REPLIES = [of_four_tools, of_the_scorecard, of_a_run, of_a_strict_run]


@pytest.mark.parametrize("column", COLUMNS.values())
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply.__name__)
def test_nothing_is_cut_and_every_number_and_mark_is_seen(
    reply: Callable[[Language], str], language: Language, column: int, browser: Browser, tmp_path: Path
) -> None:
    markdown = reply(language)
    path = tmp_path / "reply.html"
    path.write_text(page("?", markdown, language, column + MARGINS), encoding="utf-8")
    browser.show(path, column + MARGINS)
    inner = (
        "const s = getComputedStyle(e); return e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight)"
    )
    assert browser.value(f"(e => {{ {inner} }})(document.querySelector('.reply'))") == column
    browser.value(UNFOLD)
    assert browser.value(CUT) == []
    for pattern in (NUMBER, MARK):
        written = re.findall(pattern.replace("\\\\", "\\"), markdown)
        shown = browser.value(SHOWN % f'"{pattern}"')
        assert written
        assert [text for text, _ in shown] == written
        assert {lines for _, lines in shown} == {1}


def test_the_rules_are_those_that_cut_a_table(browser: Browser, tmp_path: Path) -> None:
    wide = (
        "| 指標 | スコア | ひとこと |\n|---|---:|---|\n| 忠実性 | 0.67 ⚠️ | 3件の主張のうち1件が資料で確認できません |"
    )
    path = tmp_path / "reply.html"
    path.write_text(page("?", wide, "ja", 210 + MARGINS), encoding="utf-8")
    browser.show(path, 210 + MARGINS)
    assert browser.value(CUT) != []
