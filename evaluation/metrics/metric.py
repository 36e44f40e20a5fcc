"""What a metric tells of itself, in one place; tools, scorecard, diagnosis and reports read everything from here."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from evaluation.result import MetricResult


@dataclass(frozen=True)
class DetailList:
    """A list in a metric's details.

    Attributes:
        key: its name there; its heading is `lists.<key>` of the metric's words.
        role: complaints (an entry with verdict 0 is quoted as what is wrong, under `lacking.<key>`), verdicts (shown,
            not complained of), chunks (verdicts on the retrieved chunks, in rank order), plain (without verdicts).
    """

    key: str
    role: Literal["complaints", "verdicts", "chunks", "plain"]


@dataclass(frozen=True)
class Said:
    """A clause of what a metric found.

    Attributes:
        name: of its sentence among the metric's words, under `found`.
        values: what the sentence names; a list is joined with the language's separator.
        quoted: entries of the details, quoted behind the sentence, or at its {quotes} when it is a remark.
        remark: it stands in brackets behind the others. One that quotes is left out where nothing is quoted.
    """

    name: str
    values: Mapping[str, Any] = field(default_factory=dict)
    quoted: Sequence[Mapping[str, Any]] = ()
    remark: bool = False


@dataclass(frozen=True)
class Metric:
    """A metric as everything else knows it. Its words stand in texts/metrics/<name>.toml.

    Attributes:
        name, version: of its steps and formula.
        evaluate: (JudgeSession, Sample, **options) -> MetricResult; raises EvaluationError.
        say: what a result with a score found.
        inputs: the fields of the sample that it reads.
        place: where it stands among the others, from the smallest.
        options: the keyword arguments of `evaluate` that users may set.
        lists: of its details, in the order in which they are shown.
        presets: the sets of metrics that it belongs to.
    """

    name: str
    version: str
    evaluate: Callable[..., MetricResult]
    say: Callable[[MetricResult], Sequence[Said]]
    inputs: tuple[str, ...]
    place: int
    options: tuple[str, ...] = ()
    lists: tuple[DetailList, ...] = ()
    presets: tuple[str, ...] = ()


def say_share(result: MetricResult, key: str) -> list[Said]:
    """How many entries of a list have a yes: `all`, `some` or `none`, with those that have not quoted."""
    entries = result.details[key]
    lacking = [entry for entry in entries if entry["verdict"] != 1]
    name = "some" if len(lacking) < len(entries) else "none"
    return [Said(name if lacking else "all", {"of": len(entries), "missing": len(lacking)}, lacking)]
