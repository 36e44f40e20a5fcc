"""A workspace in memory for whole runs: its storage, an app, a judge, and calls of evaluate_app one after the other."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from evaluation.errors import EvaluationError, Reason
from evaluation.golden.table import Row
from evaluation.judging.clock import Deadline
from evaluation.judging.places import Caller
from evaluation.runs.app_events import AppAnswer
from evaluation.runs.records import RowRecord
from evaluation.runs.request import RunRequest
from evaluation.runs.run import RunOutcome, run
from evaluation.runs.summary import RunReport
from tests.evaluation.fakes import ScriptedJudge, parts, questions, statements, verdicts
from tests.evaluation.runs.fakes import ManualClock, MemoryValues, answer, settings

TWO = ("faithfulness", "context_recall")
CALLS_PER_ROW = 3


def judge(**replies: Any) -> ScriptedJudge:
    """Faithfulness 1/2, context recall 1, context precision 1, answer relevancy 1."""
    return ScriptedJudge(
        **{
            "faithfulness.statements": statements("10日付与される", "当日申請できる"),
            "faithfulness.verdicts": verdicts(1, 0),
            "recall.parts": parts(1),
            "precision.chunk": {"reason": "理由", "verdict": 1},
            "relevancy.questions": questions("何日もらえますか"),
            "relevancy.grades": {"grades": [{"id": 1, "reason": "同じ", "grade": 3}]},
            **replies,
        }
    )


class Bot:
    """An app that answers each question in its own way.

    Attributes:
        asked: how often, by question.
    """

    def __init__(self, reply: Callable[[RowRecord], AppAnswer] | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self._reply = reply or (lambda record: answer(f"{record.question}の答え"))

    def __call__(self, record: RowRecord) -> AppAnswer:
        self.asked[record.question] += 1
        return self._reply(record)


def table(count: int = 3, **changes: Any) -> list[Row]:
    return [Row(f"質問{n}", **{"reference": f"正解{n}", **changes}) for n in range(1, count + 1)]


def request(rows: list[Row] | None = None, **changes: Any) -> RunRequest:
    """A call for two of the metrics, one row after the other; `settings` are changes of the settings."""
    made = settings(**{"metrics": TWO, **changes.pop("settings", {})})
    fields = {"name": "朝の評価", "rows": table() if rows is None else rows, "concurrency": 1}
    return RunRequest(settings=made, **{**fields, **changes})


class Place:
    """A workspace: its storage, an app, a judge, and calls of evaluate_app one after the other."""

    def __init__(
        self, bot: Bot | None = None, asked_judge: ScriptedJudge | None = None, places: Caller | None = None
    ) -> None:
        self.values = MemoryValues()
        self.bot = bot or Bot()
        self.judge = asked_judge or judge()
        self.places = places

    def run(self, **changes: Any) -> RunReport:
        outcome = self.run_anyhow(**changes)
        assert outcome.error is None
        return outcome.report

    def run_anyhow(self, **changes: Any) -> RunOutcome:
        """The outcome of a call whose whole output goes out."""
        outcome = run(request(**changes), self.values, self.bot, self.judge, None, self.places)
        outcome.tell_seen()
        return outcome

    def calls(self) -> int:
        """How many judge calls there were since the last time."""
        count = len(self.judge.calls)
        self.judge.calls.clear()
        return count


def scores(report: RunReport) -> dict[str, float | None]:
    return {name: statistics.mean for name, statistics in report.statistics.items()}


def run_until(place: Place, done: int) -> RunReport:
    """The report of a call whose time is up after that many rows."""
    clock = ManualClock()

    def app(record: RowRecord) -> AppAnswer:
        # What is left is enough for scoring and the report, but not for another row.
        clock.pass_by(234 if record.row == done else 0)
        return place.bot(record)

    outcome = run(request(deadline=Deadline(240, clock)), place.values, app, place.judge, None)
    assert outcome.error is None
    assert (outcome.report.done, outcome.report.finished) == (done, False)
    return outcome.report


def failing_bot(*rows: int) -> Bot:
    def reply(record: RowRecord) -> AppAnswer:
        if record.row in rows:
            raise EvaluationError(Reason.APP_FAILED, text="落ちました")
        return answer(f"{record.question}の答え")

    return Bot(reply)


def unseen(place: Place, **changes: Any) -> RunOutcome:
    """A call whose output is lost: its process ended, or Dify no longer waited."""
    return run(request(**changes), place.values, place.bot, place.judge, None)
