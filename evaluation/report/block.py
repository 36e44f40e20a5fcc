"""All metrics of one answer as a block of Markdown for the chat reply."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.diagnosis import Finding
from evaluation.metrics import METRICS
from evaluation.report.escape import escape
from evaluation.report.markdown import (
    QUOTES,
    capitalized,
    finding,
    kind_of,
    quote,
    quotes,
    score_word,
)
from evaluation.report.numbers import money, score_text
from evaluation.result import MetricResult
from evaluation.scorecard import Scorecard
from evaluation.statistics.gate import FAIR, GOOD, reaches
from evaluation.texts import Texts

REASON_CHARACTERS = 80
BREAKDOWN_ENTRIES = 30
_VERDICTS = {1: "✅", 0: "❌"}


def block(card: Scorecard, texts: Texts, used: Mapping[str, Any]) -> str:
    """The scores in a table, what is wrong, what to do next, the breakdown folded, and what it cost.

    Args:
        used: "judge" (the model's name) and "usage" as JudgeSession gives it.
    """
    if card.common_failure is not None:
        return f"- {failure_line(finding(card.common_failure, texts), texts)}"
    sections = [_table(card, texts), _complaints(card, texts), _next_step(card.findings, texts)]
    sections += [_breakdown(card, texts), _cost(used, texts)]
    return "\n\n".join(section for section in sections if section)


def summary_of(card: Scorecard, texts: Texts) -> str:
    """Every score on one line, then what is wrong."""
    if card.common_failure is not None:
        return failure_line(finding(card.common_failure, texts), texts)
    scores = [f"{texts.get(f'metrics.{name}')} {score_word(result, texts)}" for name, result in card.results.items()]
    line = texts.get("separator").join(scores)
    if card.findings:
        return texts.get("with_quotes", sentence=line, quotes=texts.get(f"diagnosis.{card.findings[0].name}"))
    return texts.get("with_quotes", sentence=line, quotes=finding(card.telling, texts)) if card.telling else line


def failure_line(sentence: str, texts: Texts) -> str:
    """That nothing could be evaluated, and why."""
    return texts.get("with_quotes", sentence=texts.get("scorecard.summary_failed"), quotes=sentence)


def _next_step(findings: Sequence[Finding], texts: Texts) -> str:
    """The first finding with the settings to change, in the order to try them; "" when nothing is wrong."""
    if not findings:
        return ""
    cause, settings = texts.get(f"diagnosis.{findings[0].name}"), findings[0].settings
    if len(settings) > 1:
        cause = texts.get("settings_to_try.lead", cause=cause, steps=texts.get("scorecard.in_order"))
    lead = texts.get("with_quotes", sentence=f"**{texts.get('scorecard.next')}**", quotes=cause)
    steps = [f"{n}. {capitalized(texts.get(f'settings_to_try.{name}'))}" for n, name in enumerate(settings, start=1)]
    return "\n".join([lead, "", *steps])


def sentence_of(found: Finding, texts: Texts) -> str:
    """A finding in words: the cause, then what to change in the order to try it."""
    steps = [texts.get(f"settings_to_try.{name}") for name in found.settings]
    words = texts.get("settings_to_try.first", step=steps[0])
    words += "".join(texts.get("settings_to_try.then", step=step) for step in steps[1:])
    return texts.get("settings_to_try.lead", cause=texts.get(f"diagnosis.{found.name}"), steps=words)


def mark(result: MetricResult, threshold: float | None) -> str:
    """Good, fair or bad against the threshold, or without one against 0.7 and 0.5."""
    return "" if result.score is None else mark_of(result.score, threshold)


def mark_of(score: float, threshold: float | None) -> str:
    """The same for a number, such as a mean."""
    if threshold is not None:
        return "✅" if reaches(score, threshold) else "❌"
    return "✅" if reaches(score, GOOD) else "⚠️" if reaches(score, FAIR) else "❌"


def _table(card: Scorecard, texts: Texts) -> str:
    head = " | ".join(texts.get(f"scorecard.{name}") for name in ("metric", "score", "finding"))
    rows = [f"| {head} |", "|---|---:|---|"]
    for name, result in card.results.items():
        score = [score_word(result, texts), mark(result, card.thresholds.get(name))]
        rows.append(_row(texts.get(f"metrics.{name}"), score, finding(result, texts, quoted=False)))
    if card.documents is not None:
        score = [score_text(card.documents.recall), mark_of(card.documents.recall, None)]
        rows.append(_row(texts.get("documents.label"), score, _documents(card, texts)))
    return "\n".join(rows)


def _row(name: str, score: Sequence[str], sentence: str) -> str:
    # A space that does not break: on a phone the mark would stand under its number.
    return f"| {name} | {'\N{NO-BREAK SPACE}'.join(filter(None, score))} | {capitalized(sentence)} |"


def _documents(card: Scorecard, texts: Texts) -> str:
    """Of the documents that should be found, how many were; beside the judged scores, without a judge."""
    documents = card.documents
    if documents is None:
        return ""
    missing, of = documents.missing, documents.expected
    quoted = quotes(texts, [{"text": name} for name in missing])
    if not documents.hit_rate:
        return texts.get("documents.none", of=of, quotes=quoted)
    sentence = texts.get("documents.found", of=of, found=of - len(missing))
    remarks = [texts.get("documents.rank", rank=round(1 / documents.reciprocal_rank))]
    if missing:
        remarks.append(texts.get("documents.missing", quotes=quoted))
    return texts.aside(sentence, texts.get("separator").join(remarks))


def _complaints(card: Scorecard, texts: Texts) -> str:
    """What the answer should not say, and what was not retrieved: the first of each, with metric and judge's reason."""
    lines = []
    for name, result in card.results.items():
        metric = texts.get(f"metrics.{name}")
        for listed in METRICS[name].lists:
            entries = result.details.get(listed.key, []) if listed.role == "complaints" else []
            lacking = [entry for entry in entries if entry["verdict"] == 0]
            lines += [
                f"> ❌ {texts.get('with_quotes', sentence=metric, quotes=_entry(texts, entry))}"
                for entry in lacking[:QUOTES]
            ]
    return "\n>\n".join(dict.fromkeys(lines))


def _entry(texts: Texts, entry: Mapping[str, Any]) -> str:
    line = quote(texts, entry["text"]) + kind_of(texts, entry)
    reason = escape(entry.get("reason", ""), REASON_CHARACTERS)
    return f"{line} → {reason}" if reason else line


def _breakdown(card: Scorecard, texts: Texts) -> str:
    lines = [line for result in card.results.values() for line in _listed(result, texts)]
    if not lines:
        return ""
    body = "\n".join(lines)
    return f"<details><summary>{texts.get('scorecard.breakdown')}</summary>\n\n{body}\n\n</details>"


def _listed(result: MetricResult, texts: Texts) -> Iterator[str]:
    for listed in METRICS[result.metric].lists:
        entries = result.details.get(listed.key)
        if not entries:
            continue
        heading = texts.get(f"words.{result.metric}.lists.{listed.key}")
        yield f"- {texts.get(f'metrics.{result.metric}')} / {heading}"
        for entry in entries[:BREAKDOWN_ENTRIES]:
            yield f"  - {_verdict(entry, texts)} {_entry(texts, entry)}"
        if len(entries) > BREAKDOWN_ENTRIES:
            yield f"  - {texts.get('more', count=len(entries) - BREAKDOWN_ENTRIES)}"


def _verdict(entry: Mapping[str, Any], texts: Texts) -> str:
    if "similarity" in entry:
        return "" if entry["similarity"] is None else score_text(max(0.0, entry["similarity"]))
    return _VERDICTS.get(entry["verdict"], f"❔ {texts.get('scorecard.unjudged')}")


def _cost(used: Mapping[str, Any], texts: Texts) -> str:
    usage = used["usage"]
    if not usage["judge_calls"]:
        return ""
    items = [
        texts.get("scorecard.judged_by", model=escape(used["judge"], 60)),
        texts.get("scorecard.calls", calls=usage["judge_calls"]),
        texts.get("scorecard.tokens", tokens=usage["total_tokens"]),
    ]
    if usage["price"]:
        items.append(money(usage["price"], usage["currency"]))
    return f"<sub>{capitalized(texts.get('dot').join(items))}</sub>"
