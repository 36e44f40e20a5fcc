"""What is tried next: which kind of question, from which passages. On plain values."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from evaluation.golden.drafts.passages import Passage, nearest
from evaluation.golden.kept_rows import KINDS

# How many of ten are of each kind when the user does not say.
USUAL_MIX: Mapping[str, float] = {
    "fact": 4,
    "condition": 2,
    "comparison": 1,
    "messy": 1,
    "false_premise": 1,
    "unanswerable": 1,
}
# A passage is asked for a question of the same kind no more often than this.
MOST_ATTEMPTS = 3


@dataclass(frozen=True)
class Task:
    """One question to draft: of a kind, from one passage, or from two for a comparison."""

    kind: str
    passages: tuple[Passage, ...]

    @property
    def key(self) -> str:
        """By which its attempts are counted."""
        return f"{self.kind} {self.passages[0].key}"


@dataclass
class Made:
    """What was made and tried so far, over all calls.

    Attributes:
        kinds, documents: drafts that were kept, by kind and by document.
        attempts: by `Task.key`.
    """

    kinds: Counter[str]
    documents: Counter[str]
    attempts: Counter[str]

    @property
    def kept(self) -> int:
        return self.kinds.total()


def shares(count: int, mix: Mapping[str, float]) -> dict[str, int]:
    """How many of `count` questions each kind gets: whole numbers, largest remainders first; together just `count`."""
    weights = {kind: max(0.0, mix.get(kind, 0.0)) for kind in KINDS}
    total = sum(weights.values())
    if total <= 0:
        return dict.fromkeys(KINDS, 0)
    exact = {kind: count * weight / total for kind, weight in weights.items()}
    whole = {kind: floor(value + 1e-9) for kind, value in exact.items()}
    # Equal remainders: the kind that stands first.
    order = sorted(KINDS, key=lambda kind: whole[kind] - exact[kind])
    for kind in order[: count - sum(whole.values())]:
        whole[kind] += 1
    return whole


class Plan:
    """Spreads the questions over kinds, documents and passages.

    Args:
        count: how many are wanted in all.
        mix: the kinds' weights.
    """

    def __init__(self, passages: Sequence[Passage], count: int, mix: Mapping[str, float]) -> None:
        self._passages = passages
        self._count = count
        self._mix = {kind: mix.get(kind, 0.0) for kind in KINDS if mix.get(kind, 0.0) > 0}
        self._index = {passage.key: place for place, passage in enumerate(passages)}

    def next_tasks(self, made: Made, most: int) -> list[Task]:
        """Up to `most` tasks to do at the same time, no more than questions are missing; [] when nothing is left."""
        tasks: list[Task] = []
        while len(tasks) < min(most, self._count - made.kept):
            running = Counter(task.kind for task in tasks)
            tried = made.attempts + Counter(task.key for task in tasks)
            live = {kind: self._candidates(kind, tried) for kind in self._mix}
            live = {kind: candidates for kind, candidates in live.items() if candidates}
            if not live:
                break
            # What a kind can't give falls to the others.
            others = sum(number for kind, number in made.kinds.items() if kind not in live)
            targets = shares(self._count - others, {kind: self._mix[kind] for kind in live})
            kind = max(live, key=lambda kind: targets[kind] - made.kinds[kind] - running[kind])
            documents = made.documents + Counter(task.passages[0].document for task in tasks)
            tasks.append(self._task(kind, live[kind], tried, documents))
        return tasks

    def _candidates(self, kind: str, tried: Mapping[str, int]) -> list[Passage]:
        """The passages that may still give a question of the kind."""
        if kind == "comparison" and len(self._passages) < 2:
            return []
        return [passage for passage in self._passages if tried[f"{kind} {passage.key}"] < MOST_ATTEMPTS]

    def _task(
        self, kind: str, candidates: Sequence[Passage], tried: Mapping[str, int], documents: Mapping[str, int]
    ) -> Task:
        """From the passage that was asked least, of the document that has given least."""

        def order(passage: Passage) -> tuple[int, ...]:
            of_kind = tried[f"{kind} {passage.key}"]
            in_all = sum(tried[f"{other} {passage.key}"] for other in KINDS)
            return of_kind, documents[passage.document], in_all, self._index[passage.key]

        passage = min(candidates, key=order)
        if kind != "comparison":
            return Task(kind, (passage,))
        others = [other for other in self._passages if other.key != passage.key and other.language == passage.language]
        others = others or [other for other in self._passages if other.key != passage.key]
        alike = nearest(passage.text, others, MOST_ATTEMPTS)
        return Task(kind, (passage, alike[tried[f"{kind} {passage.key}"] % len(alike)]))


def documents_cell(documents: Iterable[str]) -> str:
    """The names as a table's documents column has them: one a line, in quotation marks where commas stand in one."""
    names = dict.fromkeys(name for name in documents if name)
    return "\n".join(f'"{name}"' if any(mark in name for mark in ",;、，；") else name for name in names)
