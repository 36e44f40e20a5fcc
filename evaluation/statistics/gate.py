"""Whether a score or a mean reaches its threshold, and whether a whole run passes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Where the user gave no threshold: from here on a score is good, and from here on fair.
GOOD, FAIR = 0.7, 0.5

# mean: every mean reaches its threshold; sure: the lower end of its interval does.
GateKind = Literal["mean", "sure"]
GATES: tuple[GateKind, ...] = ("mean", "sure")
GateVerdict = Literal["passed", "below", "not_measured"]
GateCause = Literal["mean_below", "low_end_below", "failed_rows", "nothing_scored", "unfinished"]

# Sums of floats may miss a threshold by a hair: 0.7 of (0.6 + 0.8) / 2.
_HAIR = 1e-9


def reaches(score: float, threshold: float) -> bool:
    """Whether a score is at its threshold or above, but for the rounding of sums."""
    return score >= threshold - _HAIR


@dataclass(frozen=True)
class Measured:
    """What the gate is told of a metric that has a threshold. All values 0 to 1.

    Attributes:
        mean: over the scored rows, None without any; low is the lower end of its interval.
        at_best: the mean if each row that failed had scored 1.0; None when the metric applies to no row.
    """

    threshold: float
    mean: float | None
    low: float | None
    at_best: float | None


@dataclass(frozen=True)
class GateReason:
    """Why a run did not pass.

    Attributes:
        metric: "" where the reason is none of a metric: failed_rows, unfinished.
        mean, low, threshold: of the metric, None where they are not known.
        short_by: by how much the mean, for low_end_below the lower end, misses the threshold.
    """

    cause: GateCause
    metric: str = ""
    mean: float | None = None
    low: float | None = None
    threshold: float | None = None
    short_by: float | None = None


@dataclass(frozen=True)
class Gate:
    """Whether a run passes.

    Attributes:
        verdict: passed; below; not_measured when too little could be scored to say either.
        reasons: why it did not pass, () when it did.
        kind, max_failed: what was asked for; max_failed is a share of the rows, 0 to 1.
        rows, done, failed: rows of the run, those that are finished, and of these those without a score that they
            should have: their app failed, or a metric that has a threshold did.
        inapplicable: metrics with a threshold that apply to no row; they neither pass nor fail.
    """

    verdict: GateVerdict
    reasons: tuple[GateReason, ...]
    kind: GateKind
    max_failed: float
    rows: int
    done: int
    failed: int
    inapplicable: tuple[str, ...] = ()

    @property
    def passed(self) -> bool | None:
        """True, false, or None when it could not be measured."""
        return {"passed": True, "below": False, "not_measured": None}[self.verdict]


def judge_run(
    measured: Mapping[str, Measured], *, rows: int, done: int, failed: int, kind: GateKind, max_failed: float
) -> Gate:
    """The verdict on a run, from its metrics that have thresholds.

    In this order:
    - a run that is not finished is not measured, whatever its means are so far;
    - more failed rows than allowed: below when a mean would stay below its threshold even if all that failed had scored
      1.0, else not measured;
    - below when a mean (kind sure: the lower end of its interval) does not reach its threshold;
    - not measured when a metric that applies has no score at all, or none applies;
    - else passed.
    """
    inapplicable = tuple(name for name, entry in measured.items() if entry.at_best is None)
    asked = {name: entry for name, entry in measured.items() if entry.at_best is not None}

    def made(verdict: GateVerdict, *reasons: GateReason) -> Gate:
        return Gate(verdict, reasons, kind, max_failed, rows, done, failed, inapplicable)

    if done < rows:
        return made("not_measured", GateReason("unfinished"))
    too_many = failed > max_failed * rows + _HAIR
    if too_many:
        below = [_below(name, entry, "mean") for name, entry in asked.items() if _stays_below(entry)]
    else:
        below = [_below(name, entry, kind) for name, entry in asked.items()]
    if found := [reason for reason in below if reason]:
        return made("below", *found)
    if too_many:
        return made("not_measured", GateReason("failed_rows"))
    unscored = [name for name, entry in asked.items() if entry.mean is None] or ([] if asked else list(inapplicable))
    if unscored:
        reasons = [GateReason("nothing_scored", name, threshold=measured[name].threshold) for name in unscored]
        return made("not_measured", *reasons)
    return made("passed")


def _stays_below(entry: Measured) -> bool:
    return entry.at_best is not None and not reaches(entry.at_best, entry.threshold)


def _below(name: str, entry: Measured, kind: GateKind) -> GateReason | None:
    """Why a metric is below its threshold, None when it is not or has no mean."""
    for cause, value in (("mean_below", entry.mean), ("low_end_below", entry.low if kind == "sure" else None)):
        if value is not None and not reaches(value, entry.threshold):
            short_by = entry.threshold - value
            return GateReason(cause, name, entry.mean, entry.low, entry.threshold, short_by)  # type: ignore[arg-type]
    return None
