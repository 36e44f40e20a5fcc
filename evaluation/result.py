"""The result of a metric: data, the same on every path."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

from evaluation.errors import UNSEEN, EvaluationError, Reason

Status = Literal["scored", "partial", "not_applicable", "failed"]

# The input simply does not have what the metric measures; nothing went wrong.
_NOT_APPLICABLE = UNSEEN | {
    Reason.NO_REFERENCE,
    Reason.NO_CLAIMS,
    Reason.NO_ANSWER,
    Reason.ONLY_THOUGHTS,
    Reason.NOT_FOUND,
    Reason.AMBIGUOUS_MATCH,
}


def status_of(error: EvaluationError | None) -> Status:
    """The status of a result without a score; scored when there is no error."""
    if error is None:
        return "scored"
    return "not_applicable" if error.reason in _NOT_APPLICABLE else "failed"


@dataclass(frozen=True)
class MetricResult:
    """What a metric found.

    Attributes:
        metric: its name, e.g. "faithfulness".
        version: of the metric's steps and formula.
        status: scored; partial (a score, but not everything could be judged); not_applicable or failed (no score).
        score: 0 to 1, None exactly when status is not_applicable or failed. Never NaN, not rounded.
        reason: "" when scored without anything special.
        reason_values: what the reason's sentence names.
        details: claims, parts, chunks or questions with their verdicts and reasons; JSON types only.
    """

    metric: str
    version: str
    status: Status
    score: float | None = None
    reason: Reason = Reason.NONE
    reason_values: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.score is None) != (self.status in {"not_applicable", "failed"}):
            raise ValueError("a score goes with scored and partial, and only with them")
        if self.score is not None and not 0.0 <= self.score <= 1.0:
            raise ValueError("a score is a number from 0 to 1")

    @classmethod
    def without_score(cls, metric: str, version: str, error: EvaluationError, **details: Any) -> "MetricResult":
        """The result when an error left nothing to score."""
        return cls(metric, version, status_of(error), reason=error.reason, reason_values=error.values, details=details)


DETAILS_BYTES = 200_000
# How far details are shortened, one step after the other: characters of a text, entries of a list or a mapping.
_STEPS = ((4000, None), (1000, None), (300, 500), (100, 200), (60, 50), (40, 10))


def bounded(details: Mapping[str, Any], limit: int = DETAILS_BYTES) -> dict[str, Any]:
    """The details in at most `limit` bytes of JSON in UTF-8, in which a Japanese character has three.

    Long texts are shortened with "…", then lists and mappings, which say how many are left out in a last entry
    {"omitted": n}. What takes most is shortened first: a list of thousands costs the small things beside it nothing.
    """
    result = dict(details)
    sizes = {name: _size(value) for name, value in details.items()}
    # What the names and the marks between them take.
    others = _size(result) - sum(sizes.values())
    for text_limit, list_limit in _STEPS:
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            if others + sum(sizes.values()) <= limit:
                return result
            result[name] = _shortened(details[name], text_limit, list_limit)
            sizes[name] = _size(result[name])
    return result


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _shortened(value: Any, text_limit: int, list_limit: int | None) -> Any:
    if isinstance(value, str):
        return value if len(value) <= text_limit else value[: text_limit - 1] + "…"
    if isinstance(value, Mapping):
        kept = {key: _shortened(item, text_limit, list_limit) for key, item in islice(value.items(), list_limit)}
        return kept if len(kept) == len(value) else {**kept, "omitted": len(value) - len(kept)}
    if isinstance(value, (list, tuple)):
        before = _omitted(value)
        entries = value[:-1] if before else value
        cut = [_shortened(item, text_limit, list_limit) for item in entries[:list_limit]]
        omitted = before + len(entries) - len(cut)
        return [*cut, {"omitted": omitted}] if omitted else cut
    return value


def _omitted(entries: Sequence[Any]) -> int:
    """How many entries an earlier shortening has left out of the list."""
    last = entries[-1] if entries else None
    return int(last["omitted"]) if isinstance(last, Mapping) and last.keys() == {"omitted"} else 0
