"""All metrics of one answer as a block of Markdown for the chat reply."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evaluation.diagnosis import Finding
from evaluation.metrics import METRICS
from evaluation.report.escape import escape, unescape
from evaluation.report.markdown import (
    QUOTES,
    capitalized,
    finding,
    list_line,
    quote,
    score_word,
    scored_head,
    with_reason,
)
from evaluation.report.numbers import money, score_text
from evaluation.result import MetricResult
from evaluation.scorecard import Scorecard
from evaluation.texts import Texts

BREAKDOWN_ENTRIES = 30
TITLE_CHARACTERS = 40
_VERDICTS = {1: "✅", 0: "❌"}


def block(card: Scorecard, texts: Texts, used: Mapping[str, Any]) -> str:
    """A list of the scores with what is wrong, what to do next, the breakdown folded, and what it cost.

    Args:
        used: "judge" (the model's name), "usage" as JudgeSession gives it, and the counts of "contexts".
    """
    if card.common_failure is not None:
        return f"- {failure_line(finding(card.common_failure, texts), texts)}"
    lines = [list_line(result, texts, card.thresholds.get(name)) for name, result in card.results.items()]
    if documents := _documents(card, texts):
        lines.append(documents)
    sections = ["\n".join(lines), _next_step(card.findings, texts), _breakdown(card, texts), _made(used, texts)]
    return "\n\n".join(section for section in sections if section)


def summary_of(card: Scorecard, texts: Texts) -> str:
    """Every score on one line of plain text, then what is wrong."""
    if card.common_failure is not None:
        return failure_line(unescape(finding(card.common_failure, texts)), texts)
    scores = [f"{texts.get(f'metrics.{name}')} {score_word(result, texts)}" for name, result in card.results.items()]
    line = texts.get("separator").join(scores)
    if card.findings:
        return texts.get("with_quotes", sentence=line, quotes=texts.get(f"diagnosis.{card.findings[0].name}"))
    telling = unescape(finding(card.telling, texts)) if card.telling else ""
    return texts.get("with_quotes", sentence=line, quotes=telling) if telling else line


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


def _documents(card: Scorecard, texts: Texts) -> str:
    """Of the documents that should be found, how many were; beside the judged scores, without a judge."""
    documents = card.documents
    if documents is None:
        return ""
    quoted = texts.get("separator").join(quote(texts, name) for name in documents.missing[:QUOTES])
    if len(documents.missing) > QUOTES:
        quoted = texts.get("separator").join([quoted, texts.get("more", count=len(documents.missing) - QUOTES)])
    if documents.hit_rate:
        sentence = texts.get(
            "documents.found", of=documents.expected, found=documents.expected - len(documents.missing)
        )
        remarks = [texts.get("documents.rank", rank=round(1 / documents.reciprocal_rank))]
        if documents.missing:
            remarks.append(texts.get("documents.missing", quotes=quoted))
        sentence = texts.aside(sentence, texts.get("separator").join(remarks))
    else:
        sentence = texts.get("documents.none", of=documents.expected, quotes=quoted)
    head = scored_head(texts.get("documents.label"), score_text(documents.recall), documents.recall, None, texts)
    return f"- {head} {capitalized(sentence)}"


def _breakdown(card: Scorecard, texts: Texts) -> str:
    """Every claim, part and chunk with its verdict, folded. Lists of one level: a phone has no room for more."""
    sections = [section for result in card.results.values() for section in _listed(result, texts)]
    if not sections:
        return ""
    if card.documents is not None:
        sections.append(f"**{texts.get('documents.label')}**\n\n{texts.get('documents.what')}")
    body = "\n\n".join(sections)
    return f"<details><summary>{texts.get('scorecard.breakdown')}</summary>\n\n{body}\n\n</details>"


def _listed(result: MetricResult, texts: Texts) -> Iterator[str]:
    for listed in METRICS[result.metric].lists:
        entries = result.details.get(listed.key)
        if not entries:
            continue
        heading = texts.get(f"words.{result.metric}.lists.{listed.key}")
        head = texts.get("with_quotes", sentence=texts.get(f"metrics.{result.metric}"), quotes=heading)
        lines = [f"- {_judged(entry, texts)}" for entry in entries[:BREAKDOWN_ENTRIES]]
        if len(entries) > BREAKDOWN_ENTRIES:
            lines.append(f"- {texts.get('more', count=len(entries) - BREAKDOWN_ENTRIES)}")
        yield f"**{head}**\n\n" + "\n".join(lines)


def _judged(entry: Mapping[str, Any], texts: Texts) -> str:
    """Verdict, text and reason of an entry; of a chunk its rank and document before them."""
    said = with_reason(texts, entry)
    if "rank" in entry:
        title = escape(entry.get("title", ""), TITLE_CHARACTERS)
        place = texts.get("scorecard.chunk", rank=entry["rank"], title=title).strip()
        said = texts.get("with_quotes", sentence=place, quotes=said)
    return f"{_verdict(entry, texts)} {said}"


def _verdict(entry: Mapping[str, Any], texts: Texts) -> str:
    if "similarity" in entry:
        return "❔" if entry["similarity"] is None else score_text(max(0.0, entry["similarity"]))
    return _VERDICTS.get(entry["verdict"], f"❔ {texts.get('scorecard.unjudged')}")


def _made(used: Mapping[str, Any], texts: Texts) -> str:
    """The judge, what it cost, and what of the chunks was not judged."""
    usage, dropped = used["usage"], used["contexts"]["dropped"]
    items = []
    if usage["judge_calls"]:
        items += [
            texts.get("scorecard.judged_by", model=escape(used["judge"], 60)),
            texts.get("scorecard.calls", calls=usage["judge_calls"]),
            texts.get("scorecard.tokens", tokens=usage["total_tokens"]),
        ]
    if usage["price"]:
        items.append(money(usage["price"], usage["currency"]))
    if dropped:
        items.append(texts.get("dropped_chunks", count=dropped))
    return f"<sub>{capitalized(texts.get('dot').join(items))}</sub>" if items else ""
