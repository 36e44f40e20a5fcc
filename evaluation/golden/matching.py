"""Finding a question in a table of questions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from evaluation.errors import EvaluationError, Reason
from evaluation.folding import fold, may_be_the_same
from evaluation.golden.table import Row, Table
from evaluation.metrics.scoring import cosines

# Similarity that counts as the same question when the node sets none. Characters: short questions about different
# things share most of theirs, so only near-identical wording passes. Embeddings: paraphrases reach .85 with most
# models.
CHARACTER_MINIMUM, EMBEDDING_MINIMUM = 0.9, 0.85
# Two questions this close to each other in similarity can't be told apart by it.
TIE = 0.01
# A table is embedded anew for each question; beyond this the candidates nearest by characters are.
EMBEDDED_ROWS = 300


@dataclass(frozen=True)
class Match:
    """A table's row for a question.

    Attributes:
        row: None when nothing is similar enough, or several rows are equally so.
        nearest: the most similar question of the table, "" when there is none.
        similarity: of the nearest, 0 to 1.
        minimum: the similarity that counts as the same.
        method: "exact", "characters" or "embedding".
        ambiguous: several rows with different references are equally similar.
        conflicts: questions that stand in the table again with another reference; the first counts.
    """

    row: Row | None
    nearest: str = ""
    similarity: float = 0.0
    minimum: float = 1.0
    method: str = "exact"
    ambiguous: bool = False
    conflicts: int = 0

    def error(self) -> EvaluationError | None:
        """Why there is no reference, None when there is one."""
        if self.row is not None:
            return None if self.row.reference else EvaluationError(Reason.NO_REFERENCE)
        return EvaluationError(Reason.AMBIGUOUS_MATCH if self.ambiguous else Reason.NOT_FOUND)


def find_reference(
    question: str,
    table: Table,
    minimum: float | None = None,
    embed: Callable[[Sequence[str]], Iterable[Sequence[float]]] | None = None,
) -> Match:
    """The table's row for a question: the same after `fold`, else the nearest that is similar enough.

    Questions that differ in a number or a name are never taken for one another (「2024年度」, 「2025年度」).

    Args:
        minimum: similarity that counts as the same question; by default .9 by characters, .85 by embeddings.
        embed: texts -> vectors; without it similarity is the share of characters in common (rapidfuzz's ratio).

    Raises:
        EvaluationError: from `embed`, or embedding_invalid.
    """
    rows, conflicts = _by_question(table)
    key = fold(question)
    if key in rows:
        row = rows[key]
        return Match(row, row.question, 1.0, conflicts=conflicts)
    if minimum is None:
        minimum = EMBEDDING_MINIMUM if embed else CHARACTER_MINIMUM
    candidates = {other: row for other, row in rows.items() if may_be_the_same(question, row.question)}
    ranked = [
        (score / 100, other)
        for other, score, _ in process.extract(key, list(candidates), scorer=fuzz.ratio, limit=EMBEDDED_ROWS)
    ]
    method = "characters"
    if embed and ranked:
        method = "embedding"
        texts = [question, *(candidates[other].question for _, other in ranked)]
        vectors = list(embed(texts))
        similarities = cosines(vectors[0], vectors[1:])
        ranked = sorted(zip(similarities, [other for _, other in ranked], strict=True), reverse=True)
    if not ranked:
        return Match(None, minimum=minimum, method=method, conflicts=conflicts)
    similarity, best = ranked[0]
    row = candidates[best]
    tied = [candidates[other] for score, other in ranked[1:] if similarity - score < TIE]
    ambiguous = similarity >= minimum and any(other.reference != row.reference for other in tied)
    found = similarity >= minimum and not ambiguous
    return Match(row if found else None, row.question, max(0.0, similarity), minimum, method, ambiguous, conflicts)


def _by_question(table: Table) -> tuple[dict[str, Row], int]:
    """The first row of each question that has a reference, and how many later ones have another."""
    rows: dict[str, Row] = {}
    conflicts = 0
    for row in table.rows:
        key = fold(row.question) or row.question
        first = rows.setdefault(key, row)
        if not first.reference:
            rows[key] = row if row.reference else first
        elif row.reference and row.reference != first.reference:
            conflicts += 1
    return rows, conflicts
