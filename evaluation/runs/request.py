"""What one call of evaluate_app asks for."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluation.golden.table import Row
from evaluation.judging.clock import Deadline
from evaluation.runs.records import RunSettings, open_records

# What a call keeps of its time for the comparison, the page, the spreadsheet and their way to Dify: measured, with room
# for a machine half as fast. Never more than half of the whole.
REPORT_SECONDS = 2.0
REPORT_SECONDS_PER_ROW = 0.01


@dataclass(frozen=True)
class RunRequest:
    """What one call asks for.

    Attributes:
        name: of the run, "" for the runs of the app.
        rows: of the table, in order.
        deadline: by then the last line of the output must be out.
        title: how reports call the run.
        app_name: what people call the app, "" where nothing is known.
        table_name, table_version: of the kept table that the rows are from; "" and None for a pasted one.
        concurrency: rows at a time.
        fresh: a new run is begun, and no scores are taken from earlier ones.
        retry_failed: of the newest run, when it is finished, only the rows that failed are asked or judged again.
        compare_with: the name of another run, "" for the run before of the same name.
        keep_runs: how many runs of the name are kept.
    """

    name: str
    rows: Sequence[Row]
    settings: RunSettings
    deadline: Deadline = field(default_factory=lambda: Deadline(240.0))
    title: str = ""
    app_name: str = ""
    table_name: str = ""
    table_version: int | None = None
    concurrency: int = 4
    fresh: bool = False
    retry_failed: bool = False
    compare_with: str = ""
    keep_runs: int = 20

    @property
    def table(self) -> str:
        """A hash of all that is asked."""
        records = open_records(self.rows, self.settings.repeat)
        asked = [[r.question, r.reference, r.documents, r.category, r.inputs] for r in records]
        return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]

    @property
    def working(self) -> Deadline:
        """By then asking and judging must end, so that there is time for the report."""
        rows = len(self.rows) * self.settings.repeat
        return self.deadline.earlier(min(REPORT_SECONDS + REPORT_SECONDS_PER_ROW * rows, self.deadline.seconds / 2))
