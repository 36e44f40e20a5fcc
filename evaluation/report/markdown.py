"""A metric's result as one line of Markdown for the chat reply."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.errors import Reason
from evaluation.report.escape import escape
from evaluation.report.numbers import bar, score_against, score_text
from evaluation.result import MetricResult
from evaluation.statistics.gate import reaches
from evaluation.texts import Texts

QUOTE_CHARACTERS = 60
QUOTES = 3
# Where no threshold is given, words for an answer relevancy go by these.
GOOD, FAIR = 0.7, 0.5


def finding(result: MetricResult, texts: Texts, *, quoted: bool = True) -> str:
    """What the metric found, in words: what is wrong (with quotes when `quoted`), or why there is no score."""
    reason = reason_sentence(result.reason, result.reason_values, texts)
    if result.score is None:
        return reason
    if result.status == "scored" and reason:
        return reason
    sentence = _SENTENCES[result.metric](result, texts, quoted=quoted)
    for remark in _remarks(result, reason, texts):
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
        name: escape(value, QUOTE_CHARACTERS)
        for name, value in values.items()
        if isinstance(value, str) and name != "field"
    }
    return texts.reason(reason, {**values, **quoted})


def score_word(result: MetricResult, texts: Texts) -> str:
    """The score with two decimals, or the word for "not evaluated"."""
    return texts.get("not_evaluated") if result.score is None else score_text(result.score)


def summary_line(result: MetricResult, texts: Texts) -> str:
    """Name, score and finding on one line, without Markdown."""
    mark = ": " if texts.language == "en" else "："
    return f"{texts.get(f'metrics.{result.metric}')} {score_word(result, texts)}{mark}{finding(result, texts)}"


def list_line(result: MetricResult, texts: Texts, threshold: float | None = None, dropped: int = 0) -> str:
    """The tool's `text`: one list item, so that several tools' lines stack under one another.

    Args:
        dropped: chunks that were left out because they hold no text.
    """
    score = score_word(result, texts)
    if result.score is not None and threshold is not None:
        score = score_against(result.score, threshold)
    head = f"- **{texts.get(f'metrics.{result.metric}')} {score}**"
    if result.score is not None:
        head += f" {bar(result.score)}"
        if threshold is not None:
            name = "passed" if reaches(result.score, threshold) else "not_passed"
            head += f" {texts.get(name, threshold=score_text(threshold))}"
    line = f"{head} {capitalized(finding(result, texts))}"
    return texts.aside(line, texts.get("dropped_chunks", count=dropped)) if dropped else line


def capitalized(sentence: str) -> str:
    """The sentence with a capital first letter, as it stands alone; other scripts stay as they are."""
    return sentence[:1].upper() + sentence[1:]


def quotes(texts: Texts, entries: Sequence[Mapping[str, Any]]) -> str:
    """The first three entries' texts in quotation marks, with the kind of a claim that is not supported."""
    shown = [quote(texts, entry["text"]) + kind_of(texts, entry) for entry in entries[:QUOTES]]
    if len(entries) > QUOTES:
        shown.append(texts.get("more", count=len(entries) - QUOTES))
    return texts.get("separator").join(shown)


def quote(texts: Texts, text: str) -> str:
    """A text in quotation marks, escaped and shortened."""
    return texts.get("open_quote") + escape(text, QUOTE_CHARACTERS) + texts.get("close_quote")


def kind_of(texts: Texts, entry: Mapping[str, Any]) -> str:
    """Why a claim is not supported, in brackets; "" when the judge did not say."""
    return texts.aside("", texts.get(f"scorecard.{entry['kind']}")).lstrip() if entry.get("kind") else ""


def _with_quotes(texts: Texts, sentence: str, entries: Sequence[Mapping[str, Any]], *, quoted: bool) -> str:
    return texts.get("with_quotes", sentence=sentence, quotes=quotes(texts, entries)) if quoted else sentence


def _shares(result: MetricResult, texts: Texts, entries: Sequence[Mapping[str, Any]], *, quoted: bool) -> str:
    """A sentence on how many of the claims or parts hold, quoting those that do not."""
    lacking = [entry for entry in entries if entry["verdict"] != 1]
    if not lacking:
        return texts.get(f"{result.metric}.{_all_or_one(result, entries, 'all', 'one_of_one')}", of=len(entries))
    name = _all_or_one(result, entries, "none", "none_of_one") if len(lacking) == len(entries) else "some"
    sentence = texts.get(f"{result.metric}.{name}", of=len(entries), missing=len(lacking))
    return _with_quotes(texts, sentence, lacking, quoted=quoted)


def _all_or_one(result: MetricResult, entries: Sequence[object], every: str, one: str) -> str:
    """The sentence for the only claim; the parts of a reference are not counted in words."""
    return one if len(entries) == 1 and result.metric == "faithfulness" else every


def _faithfulness(result: MetricResult, texts: Texts, *, quoted: bool) -> str:
    return _shares(result, texts, result.details["claims"], quoted=quoted)


def _context_recall(result: MetricResult, texts: Texts, *, quoted: bool) -> str:
    return _shares(result, texts, result.details["parts"], quoted=quoted)


def _answer_correctness(result: MetricResult, texts: Texts, *, quoted: bool) -> str:
    sentences = []
    for name, key in (("missing", "facts"), ("extra", "claims")):
        entries = result.details[key]
        lacking = [entry for entry in entries if entry["verdict"] != 1]
        if lacking:
            sentence = texts.get(f"answer_correctness.{name}", of=len(entries), missing=len(lacking))
            sentences.append(_with_quotes(texts, sentence, lacking, quoted=quoted))
    sentence = texts.get("list_separator").join(sentences) or texts.get("answer_correctness.all")
    if result.details["method"] == "f1":
        sentence = texts.aside(sentence, texts.get("answer_correctness.f1_only"))
    return sentence


def _context_precision(result: MetricResult, texts: Texts, *, quoted: bool) -> str:  # noqa: ARG001 - as the others
    chunks = result.details["chunks"]
    ranks = [chunk["rank"] for chunk in chunks if chunk["verdict"] == 1]
    if len(chunks) == 1:
        return texts.get("context_precision.one_of_one" if ranks else "context_precision.none_of_one")
    if not ranks:
        return texts.get("context_precision.none", of=len(chunks))
    if len(ranks) == len(chunks):
        return texts.get("context_precision.all", of=len(chunks))
    name = "top" if ranks == list(range(1, len(ranks) + 1)) else "mixed"
    listed = texts.get("separator").join(map(str, ranks))
    return texts.get(f"context_precision.{name}", of=len(chunks), relevant=len(ranks), ranks=listed)


def _answer_relevancy(result: MetricResult, texts: Texts, *, quoted: bool) -> str:
    score = result.score or 0.0
    level = "high" if reaches(score, GOOD) else "middle" if reaches(score, FAIR) else "low"
    sentence = texts.get(f"answer_relevancy.{level}")
    if level != "high" and quoted:
        asked = quotes(texts, result.details["questions"][:1])
        sentence = texts.aside(sentence, texts.get("answer_relevancy.asked", questions=asked))
    if result.details["method"] == "judged":
        sentence = texts.aside(sentence, texts.get("answer_relevancy.judged"))
    return sentence


_SENTENCES = {
    "faithfulness": _faithfulness,
    "context_recall": _context_recall,
    "context_precision": _context_precision,
    "answer_relevancy": _answer_relevancy,
    "answer_correctness": _answer_correctness,
}
