"""Drafted questions in words: how many were made, which, what was thrown away and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.drafts.checks import Flaw
from evaluation.golden.drafts.cost import Estimate
from evaluation.golden.drafts.drafting import Progress
from evaluation.golden.drafts.passages import Passage
from evaluation.golden.drafts.plan import shares
from evaluation.golden.kept import KeptTable
from evaluation.golden.kept_rows import KeptRow
from evaluation.report.escape import escape
from evaluation.report.markdown import QUOTE_CHARACTERS, reason_sentence
from evaluation.texts import Texts

SHOWN_DRAFTS = 20


@dataclass(frozen=True)
class Material:
    """What the drafts are made from.

    Attributes:
        thin: chunks left out because they hold next to nothing.
        read, documents: how many of the knowledge base's documents were read; 0 without one.
    """

    passages: Sequence[Passage] = ()
    thin: int = 0
    read: int = 0
    documents: int = 0

    @property
    def names(self) -> set[str]:
        return {passage.document for passage in self.passages if passage.document}


@dataclass(frozen=True)
class Drafted:
    """What one call has made.

    Attributes:
        rows: the drafts of this call; `progress` counts those of earlier ones too.
        table: into which they were put, None when they were not.
        error: why it stopped before all were made.
    """

    progress: Progress
    rows: Sequence[KeptRow]
    material: Material
    table: KeptTable | None = None
    error: EvaluationError | None = None
    cost: Mapping[str, object] = field(default_factory=dict)


def drafted_line(drafted: Drafted, texts: Texts) -> str:
    """How many of those asked for, where they are kept, and why it ended."""
    progress = drafted.progress
    line = texts.get("drafts.made", asked=progress.count, kept=progress.made.kept)
    if drafted.table:
        name, version = escape(drafted.table.head.name, QUOTE_CHARACTERS), drafted.table.version.number
        line = texts.aside(line, texts.get("drafts.kept_in", table=name, version=version))
    for remark in _remarks(drafted, texts):
        line = texts.aside(line, remark)
    return line


def _remarks(drafted: Drafted, texts: Texts) -> list[str]:
    error, remarks = drafted.error, []
    if error is not None:
        remarks.append(reason_sentence(error.reason, error.values, texts))
        if not drafted.progress.finished and drafted.table and error.reason is not Reason.CALL_LIMIT:
            remarks.append(texts.get("drafts.go_on"))
    return remarks + material_remarks(drafted.material, texts)


def material_remarks(material: Material, texts: Texts) -> list[str]:
    """What of the documents was not used."""
    remarks = []
    if material.read < material.documents:
        remarks.append(texts.get("drafts.read", read=material.read, documents=material.documents))
    if material.thin:
        remarks.append(texts.get("drafts.thin", count=material.thin))
    return remarks


def drafted_text(drafted: Drafted, texts: Texts) -> str:
    """The line, the first drafts, what was thrown away and why, the kinds, and the cost, as Markdown."""
    progress = drafted.progress
    lines = [f"**{drafted_line(drafted, texts)}**", ""]
    if drafted.rows:
        lines += [f"- {_row(kept, texts)}" for kept in drafted.rows[:SHOWN_DRAFTS]]
        if len(drafted.rows) > SHOWN_DRAFTS:
            lines.append(f"- {texts.get('kept.more_rows', count=len(drafted.rows) - SHOWN_DRAFTS)}")
        lines += ["", texts.get("drafts.check" if drafted.table else "drafts.not_kept")]
    if progress.dropped:
        lines += ["", f"**{texts.get('drafts.dropped', count=progress.dropped.total())}**"]
        for flaw, count in progress.dropped.most_common():
            known = flaw if flaw in set(Flaw) else Flaw.JUDGE_FAILED.value
            lines.append("- " + texts.get("drafts.flaw", flaw=texts.get(f"drafts.flaws.{known}"), count=count))
    kinds = [
        texts.get("drafts.kind", kind=texts.get(f"kept.kinds.{kind}"), asked=asked, made=progress.made.kinds[kind])
        for kind, asked in shares(progress.count, progress.mix).items()
        if asked or progress.made.kinds[kind]
    ]
    said = texts.get("with_quotes", sentence=texts.get("drafts.kinds"), quotes=texts.get("separator").join(kinds))
    return "\n".join([*lines, "", f"<sub>{said}{_cost(drafted, texts)}</sub>"])


def _row(kept: KeptRow, texts: Texts) -> str:
    reference = escape(kept.row.reference, QUOTE_CHARACTERS)
    line = texts.get("drafts.row", question=escape(kept.row.question, QUOTE_CHARACTERS), reference=reference)
    kind = texts.get(f"kept.kinds.{kept.kind}")
    documents = dict.fromkeys(escape(source.document, QUOTE_CHARACTERS) for source in kept.sources if source.document)
    if not documents:
        return texts.aside(line, kind)
    named = texts.get("separator").join(documents)
    return texts.aside(line, texts.get("drafts.from_document", kind=kind, document=named))


def _cost(drafted: Drafted, texts: Texts) -> str:
    if not drafted.cost.get("judge_calls"):
        return ""
    items = [
        texts.get("scorecard.judged_by", model=escape(str(drafted.cost["judge"]), QUOTE_CHARACTERS)),
        texts.get("report.cost_calls", count=drafted.cost["judge_calls"]),
        texts.get("scorecard.tokens", tokens=drafted.cost["total_tokens"]),
    ]
    return "<br>" + texts.get("dot").join(items)


def estimate_line(count: int, cost: Estimate, material: Material, max_calls: int, texts: Texts) -> str:
    """What it will cost, before anything is asked."""
    line = texts.get(
        "drafts.estimate",
        asked=count,
        low=cost.low,
        high=cost.high,
        tokens=cost.tokens,
        passages=len(material.passages),
        documents=max(len(material.names), 1),
    )
    for remark in [texts.get("drafts.estimate_limit", limit=max_calls), *material_remarks(material, texts)]:
        line = texts.aside(line, remark)
    return line
