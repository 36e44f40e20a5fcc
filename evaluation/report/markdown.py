"""A metric's result in words, and as one line of Markdown for the chat reply.

Sentences are made for Markdown: what they quote is escaped. `unescape` gives the plain text of one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.errors import Reason
from evaluation.metrics import METRICS
from evaluation.report.escape import escape, unescape
from evaluation.report.numbers import score_against, score_text
from evaluation.result import MetricResult
from evaluation.statistics.gate import FAIR, GOOD, reaches
from evaluation.texts import NAMES, Texts

QUOTE_CHARACTERS = 60
REASON_CHARACTERS = 80
MESSAGE_CHARACTERS = 160
QUOTES = 3


def finding(result: MetricResult, texts: Texts, *, quoted: bool = True) -> str:
    """What the metric found, in words: what is wrong (with quotes when `quoted`), or why there is no score."""
    reason = reason_sentence(result.reason, result.reason_values, texts)
    if result.score is None:
        return reason
    if result.status == "scored" and reason:
        return reason
    sentence = _said(result, texts, quoted=quoted)
    for remark in _remarks(result, reason, texts):
        sentence = texts.aside(sentence, remark)
    return sentence


def _said(result: MetricResult, texts: Texts, *, quoted: bool) -> str:
    """What the metric says of its result, with the entries that it quotes when `quoted`."""
    clauses: list[str] = []
    remarks: list[str] = []
    for said in METRICS[result.metric].say(result):
        values = {
            name: texts.get("separator").join(map(str, value)) if isinstance(value, list) else value
            for name, value in said.values.items()
        }
        name = f"words.{result.metric}.found.{said.name}"
        if not said.quoted:
            (remarks if said.remark else clauses).append(texts.get(name, **values))
        elif not said.remark:
            clause = texts.get(name, **values)
            shown = texts.get("with_quotes", sentence=clause, quotes=quotes(texts, said.quoted))
            clauses.append(shown if quoted else clause)
        elif quoted:
            remarks.append(texts.get(name, **values, quotes=quotes(texts, said.quoted)))
    sentence = texts.get("list_separator").join(clauses)
    for remark in remarks:
        sentence = texts.aside(sentence, remark)
    return sentence


def _remarks(result: MetricResult, reason: str, texts: Texts) -> Iterator[str]:
    """What is missing from a partial result, and how far the votes agreed."""
    counts = result.details.get("coverage", {})
    judged, of, cut = counts.get("judged", 0), counts.get("of", 0), counts.get("list_cut", False)
    if result.status == "partial":
        if judged < of:
            yield texts.get("incomplete", judged=judged, of=of, reason=reason)
        elif not cut:
            yield reason
        if cut:
            yield texts.get("list_cut")
    if "agreement" in counts:
        yield texts.get("agreement", share=score_text(counts["agreement"]))


def reason_sentence(reason: Reason, values: Mapping[str, Any], texts: Texts) -> str:
    """The sentence for a reason code; what it quotes is escaped. The field is a name of ours, which gives a label."""
    quoted = {
        # What an app said of its failure comes to its point late.
        name: escape(value, MESSAGE_CHARACTERS if name == "text" else QUOTE_CHARACTERS)
        for name, value in values.items()
        if isinstance(value, str) and name not in NAMES
    }
    return texts.reason(reason, {**values, **quoted})


def score_word(result: MetricResult, texts: Texts) -> str:
    """The score with two decimals, or the word for "not evaluated"."""
    return texts.get("not_evaluated") if result.score is None else score_text(result.score)


def summary_line(result: MetricResult, texts: Texts) -> str:
    """Name, score and finding on one line of plain text."""
    scored = f"{texts.get(f'metrics.{result.metric}')} {score_word(result, texts)}"
    return texts.get("with_quotes", sentence=scored, quotes=unescape(finding(result, texts)))


def list_line(result: MetricResult, texts: Texts, threshold: float | None = None, dropped: int = 0) -> str:
    """One list item, so that several metrics' lines stack under one another: mark, name and score, what was found.

    Args:
        dropped: chunks that were left out because they hold no text.
    """
    score = score_word(result, texts)
    if result.score is not None and threshold is not None:
        score = score_against(result.score, threshold)
    head = scored_head(texts.get(f"metrics.{result.metric}"), score, result.score, threshold, texts)
    line = f"- {head} {capitalized(finding(result, texts))}"
    return texts.aside(line, texts.get("dropped_chunks", count=dropped)) if dropped else line


def scored_head(
    name: str, shown: str, score: float | None, threshold: float | None, texts: Texts, sides: str = ""
) -> str:
    """What a list item about a score begins with: mark, name and score, and the threshold where the user set one.

    Args:
        shown: the score as it is shown.
        score: what is held against the threshold.
        sides: before the names of the words for both sides of the threshold, where it is not the score shown.
    """
    head = f"**{name} {shown}**"
    if score is None:
        return head
    head = f"{mark_of(score, threshold)} {head}"
    if threshold is None:
        return head
    side = "reached" if reaches(score, threshold) else "not_reached"
    return texts.aside(head, texts.get(f"{sides}{side}", threshold=score_text(threshold)))


def mark_of(score: float, threshold: float | None) -> str:
    """Good, fair or bad against the threshold, or without one against 0.7 and 0.5."""
    if threshold is not None:
        return "✅" if reaches(score, threshold) else "❌"
    return "✅" if reaches(score, GOOD) else "⚠️" if reaches(score, FAIR) else "❌"


def capitalized(sentence: str) -> str:
    """The sentence with a capital first letter, as it stands alone; other scripts stay as they are."""
    return sentence[:1].upper() + sentence[1:]


def quotes(texts: Texts, entries: Sequence[Mapping[str, Any]]) -> str:
    """The first three entries' texts in quotation marks, with the kind of a claim that is not supported.

    A single one has the judge's reason behind it; those of several would hide where one ends.
    """
    if len(entries) == 1:
        return with_reason(texts, entries[0])
    shown = [quote(texts, entry["text"]) + kind_of(texts, entry) for entry in entries[:QUOTES]]
    if len(entries) > QUOTES:
        shown.append(texts.get("more", count=len(entries) - QUOTES))
    return texts.get("separator").join(shown)


def with_reason(texts: Texts, entry: Mapping[str, Any]) -> str:
    """An entry's text in quotation marks, its kind, and why the judge says so."""
    quoted = quote(texts, entry["text"]) + kind_of(texts, entry)
    reason = escape(str(entry.get("reason") or ""), REASON_CHARACTERS)
    return texts.get("because", sentence=quoted, reason=reason) if reason else quoted


def quote(texts: Texts, text: str) -> str:
    """A text in quotation marks, escaped and shortened."""
    return texts.get("open_quote") + escape(text, QUOTE_CHARACTERS) + texts.get("close_quote")


def kind_of(texts: Texts, entry: Mapping[str, Any]) -> str:
    """Why a claim is not supported, in brackets; "" when the judge did not say."""
    return texts.aside("", texts.get(f"scorecard.{entry['kind']}")).lstrip() if entry.get("kind") else ""
