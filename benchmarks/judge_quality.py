"""How right the project's prompts are with a real judge, on labelled sets that are given by path (none is kept here).

    python -m benchmarks.judge_quality --claims claims.jsonl --retrieval retrieval.jsonl --items items.json

Sets, each optional:
  --claims     lines {"lang", "context", "claim", "supported": 0 or 1}
  --retrieval  lines {"lang", "question", "reference", "contexts", "expected_context_precision"}; the chunk that holds
               the answer stands at rank 1, 2 or 3 (precision 1, .5, .3333) or is missing (0)
  --items      a list of {"lang", "q", "ctx", "st": [[statement, "S" | "C" | "A"], …]}; S follows from ctx

Without --base-url the embedded judge is started. --prompts names a folder whose <prompt>.<language>.md replace the
project's own, to compare wordings.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from rapidfuzz.fuzz import ratio

from devhost.local_models import LocalModels
from evaluation.errors import EvaluationError, JudgeError, Reason
from evaluation.judging.models import Charge
from evaluation.judging.replies import Judgement, Part, Shape, UnjudgedPart
from evaluation.judging.session import JudgeSession
from evaluation.languages import Language
from evaluation.metrics.verdicts import BY_ID

ONE = Shape(Judgement)
PARTS = Shape(Part, "parts", fallback=UnjudgedPart)
CALL_SECONDS = 300
MOST_TOKENS = 600

type Verdicts = dict[int, bool | None]


@dataclass(frozen=True)
class Case:
    """One call: the data that the prompt gets and the verdict expected for each id (1 when the reply has no ids)."""

    language: Language
    data: Mapping[str, object]
    expected: Mapping[int, bool]


@dataclass
class Tally:
    """Counts of one prompt on one set; `right_yes` of `yes` are the items whose expected verdict is 1."""

    yes: int = 0
    right_yes: int = 0
    no: int = 0
    right_no: int = 0
    unusable: int = 0
    seconds: list[float] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)

    def add(self, expected: bool, given: bool | None) -> None:
        """Count one verdict; None is one that could not be read, which is never right."""
        self.unusable += given is None
        if expected:
            self.yes += 1
            self.right_yes += given is True
        else:
            self.no += 1
            self.right_no += given is False

    def row(self, name: str) -> str:
        """A line of the printed table."""
        right, of = self.right_yes + self.right_no, self.yes + self.no
        seconds = sum(self.seconds) / len(self.seconds)
        characters = sum(self.characters) / len(self.characters)
        shares = [f"{right}/{of}", f"{self.right_yes}/{self.yes}", f"{self.right_no}/{self.no}"]
        return "| " + " | ".join([name, *shares, str(self.unusable), f"{characters:.0f}", f"{seconds:.1f}"]) + " |"


class HttpJudge:
    """A chat model behind an OpenAI-compatible server, asked with temperature 0."""

    def __init__(self, base_url: str, model: str, key: str, replaced: Mapping[str, str]) -> None:
        self.base_url, self.name, self.key, self.replaced = base_url, model, key, replaced
        self.written = 0

    def complete(self, system: str, user: str) -> tuple[str, Charge]:
        """The reply's text; the system message may be replaced by another wording of the same prompt."""
        _, prompt, _, language = system.splitlines()[0].split(" ")
        body = {
            "model": self.name,
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
            "messages": [
                {"role": "system", "content": self.replaced.get(f"{prompt}.{language}", system)},
                {"role": "user", "content": user},
            ],
        }
        headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        reply = requests.post(f"{self.base_url}/chat/completions", json=body, headers=headers, timeout=CALL_SECONDS)
        if not reply.ok:
            raise JudgeError(Reason.MODEL_ERROR, detail=f"{reply.status_code} {reply.text[:200]}")
        text = reply.json()["choices"][0]["message"]["content"] or ""
        self.written += len(text)
        return text, Charge()


def claim_cases(path: Path) -> list[Case]:
    """One claim a call."""
    return [
        Case(
            row["lang"],
            {"contexts": [row["context"]], "statements": [{"id": 1, "text": row["claim"]}]},
            {1: bool(row["supported"])},
        )
        for row in _lines(path)
    ]


def chunk_cases(path: Path) -> list[Case]:
    """One chunk a call: useful only when it is the one that holds the answer."""
    return [
        Case(
            row["lang"],
            {"question": row["question"], "reference": row["reference"], "context": context},
            {1: rank == _rank(row)},
        )
        for row in _lines(path)
        for rank, context in enumerate(row["contexts"], start=1)
    ]


def part_cases(path: Path) -> list[Case]:
    """A reference with all its chunks, where one holds the answer; and with that one taken away."""
    cases = []
    for row in _lines(path):
        held = _rank(row)
        data = {"question": row["question"], "reference": row["reference"]}
        if held:
            cases.append(Case(row["lang"], data | {"contexts": row["contexts"]}, {1: True}))
        rest = [context for rank, context in enumerate(row["contexts"], start=1) if rank != held]
        cases.append(Case(row["lang"], data | {"contexts": rest}, {1: False}))
    return cases


def item_claims(items: list[dict[str, Any]], together: bool) -> list[Case]:
    """The items' statements, all of an item in one call or each alone."""
    cases = []
    for item in items:
        numbered = list(enumerate(item["st"], start=1))
        for group in [numbered] if together else [[pair] for pair in numbered]:
            statements = [{"id": number, "text": text} for number, (text, _) in group]
            expected = {number: kind == "S" for number, (_, kind) in group}
            cases.append(Case(item["lang"], {"contexts": [item["ctx"]], "statements": statements}, expected))
    return cases


def item_retrieval(items: list[dict[str, Any]], alone: bool) -> list[Case]:
    """The first supported statement as reference; the item's own context holds it, the two most similar others do not.

    Args:
        alone: one chunk a call, else the chunks of a case together, once with and once without the right one.
    """
    cases = []
    for item in items:
        reference = next(text for text, kind in item["st"] if kind == "S")
        near = sorted(
            (other["ctx"] for other in items if other is not item and other["lang"] == item["lang"]),
            key=lambda text: -ratio(text, item["ctx"]),
        )[:2]
        data = {"question": item["q"], "reference": reference}
        if alone:
            cases += [Case(item["lang"], data | {"context": text}, {1: False}) for text in near]
            cases.append(Case(item["lang"], data | {"context": item["ctx"]}, {1: True}))
        else:
            cases.append(Case(item["lang"], data | {"contexts": [near[0], item["ctx"], near[1]]}, {1: True}))
            cases.append(Case(item["lang"], data | {"contexts": near}, {1: False}))
    return cases


def ask_claims(session: JudgeSession, case: Case) -> Verdicts:
    """The first reply counts: what a tool would ask again is unusable here."""
    reply = session.ask("faithfulness.verdicts", case.data, BY_ID)
    return {item.id: item.verdict for item in reversed(reply.items)}


def ask_chunk(session: JudgeSession, case: Case) -> Verdicts:
    """One verdict."""
    reply = session.ask("precision.chunk", case.data, ONE)
    return {1: reply.items[0].verdict if reply.items else None}


def ask_parts(session: JudgeSession, case: Case) -> Verdicts:
    """Yes when at least half of the parts are attributed."""
    items = session.ask("recall.parts", case.data, PARTS).items
    return {1: 2 * sum(item.verdict for item in items) >= len(items) if items else None}


TASKS: dict[str, Callable[[JudgeSession, Case], Verdicts]] = {
    "faithfulness.verdicts": ask_claims,
    "precision.chunk": ask_chunk,
    "recall.parts": ask_parts,
}


def measure(judge: HttpJudge, prompt: str, cases: list[Case]) -> Tally:
    """Ask for every case, one call at a time."""
    tally = Tally()
    for number, case in enumerate(cases, start=1):
        started, written = time.monotonic(), judge.written
        try:
            given = TASKS[prompt](JudgeSession(judge, None, case.language, budget=CALL_SECONDS), case)
        except EvaluationError as error:
            given = {}
            if error.reason not in {Reason.JUDGE_UNPARSEABLE, Reason.JUDGE_REFUSED}:
                raise
        tally.seconds.append(time.monotonic() - started)
        tally.characters.append(judge.written - written)
        for identifier, expected in case.expected.items():
            tally.add(expected, given.get(identifier))
        if sys.stderr.isatty():
            print(f"\r\033[K{prompt} {number}/{len(cases)}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return tally


def sample(cases: list[Case], most: int) -> list[Case]:
    """At most that many cases, the same ones at every run, half of them with a yes expected where there are enough."""
    mixed = random.Random(1).sample(cases, len(cases))
    groups = [[case for case in mixed if any(case.expected.values()) is yes] for yes in (True, False)]
    few = min(groups, key=len)[: most // 2]
    many = max(groups, key=len)[: most - len(few)]
    return [*few, *many]


def sets(arguments: argparse.Namespace) -> Iterator[tuple[str, str, list[Case]]]:
    """The prompt, the set's name and its cases, for every set given."""
    if arguments.claims:
        yield "faithfulness.verdicts", arguments.claims.stem, claim_cases(arguments.claims)
    if arguments.retrieval:
        yield "precision.chunk", arguments.retrieval.stem, chunk_cases(arguments.retrieval)
        yield "recall.parts", arguments.retrieval.stem, part_cases(arguments.retrieval)
    if arguments.items:
        everything = json.loads(arguments.items.read_text(encoding="utf-8"))
        for language in sorted({item["lang"] for item in everything}):
            items = [item for item in everything if item["lang"] == language]
            name = f"{arguments.items.stem} {language}"
            yield "faithfulness.verdicts", f"{name}, alone", item_claims(items, together=False)
            yield "faithfulness.verdicts", f"{name}, together", item_claims(items, together=True)
            yield "precision.chunk", name, item_retrieval(items, alone=True)
            yield "recall.parts", name, item_retrieval(items, alone=False)


@contextmanager
def judge_server(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """Base URL and model of the server that was named, or of the embedded one."""
    if arguments.base_url:
        yield arguments.base_url.rstrip("/"), arguments.model
        return
    with LocalModels() as models:
        yield models.llm_base_url, models.llm_model


def main() -> None:
    """Print a table, one row per prompt and set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--claims", type=Path)
    parser.add_argument("--retrieval", type=Path)
    parser.add_argument("--items", type=Path)
    parser.add_argument("--only", choices=sorted(TASKS))
    parser.add_argument("--set", help="only sets whose name contains this")
    parser.add_argument("--limit", type=int, default=90, help="at most so many calls a set")
    parser.add_argument("--prompts", type=Path, help="folder of prompts to use instead")
    parser.add_argument("--base-url")
    parser.add_argument("--model", default="judge")
    parser.add_argument("--api-key", default="")
    arguments = parser.parse_args()
    files = sorted(arguments.prompts.glob("*.*.md")) if arguments.prompts else []
    replaced = {file.stem: file.read_text(encoding="utf-8").strip() for file in files}
    print("| prompt, set | right | of the yes | of the no | unusable | reply characters | seconds |", flush=True)
    print("|---|---|---|---|---|---|---|", flush=True)
    with judge_server(arguments) as (base_url, model):
        judge = HttpJudge(base_url, model, arguments.api_key, replaced)
        for prompt, name, cases in sets(arguments):
            if arguments.only in {None, prompt} and (arguments.set or "") in name:
                print(measure(judge, prompt, sample(cases, arguments.limit)).row(f"{prompt}, {name}"), flush=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def _rank(row: Mapping[str, Any]) -> int:
    precision = row["expected_context_precision"]
    return round(1 / precision) if precision else 0


if __name__ == "__main__":
    main()
