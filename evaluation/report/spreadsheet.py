"""The report of a run as a spreadsheet: a summary, and every row."""

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.formatting.rule import FormulaRule
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter

from evaluation.metrics import METRICS
from evaluation.report.escape import one_line
from evaluation.report.run_making import making
from evaluation.report.run_rows import lacking, metric_failures, row_failure, state_word
from evaluation.report.run_words import (
    compared,
    decisive,
    not_compared,
    progress,
    quoting,
    remarks,
    sign_word,
    suggested_threshold,
    title_of,
    verdict,
)
from evaluation.runs.conclusions import MetricStatistics
from evaluation.runs.records import RowRecord
from evaluation.runs.summary import RunReport
from evaluation.statistics.gate import GOOD, reaches
from evaluation.texts import Texts

# A spreadsheet's own limit for a cell, counted as UTF-16 does.
CELL_UNITS = 32_767
# What Excel takes for the beginning of a formula, also after white space, full-width and out of a CSV file.
_FORMULA = r"[\s\u200b\ufeff]*[=+\-@＝＋－＠\t\r]"
_ILLEGAL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
_HEAD = Font(bold=True)
_HEAD_FILL = PatternFill("solid", fgColor="E6EAF1")
_LOW_FILL = PatternFill("solid", bgColor="FBE1DE")
_WRAPPED = Alignment(vertical="top", wrap_text=True)
_ROW_HEIGHT = 60
MOST_INPUTS = 20
QUESTION_CHARACTERS = 60


def render_xlsx(report: RunReport, texts: Texts) -> bytes:
    """The report as an .xlsx file. No cell is a formula; numbers are numbers, with full precision."""
    book, texts = Workbook(write_only=True), texts.of_runs()
    _summary(book, report, texts)
    _rows(book, report, texts)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def safe_text(text: str, mark: str) -> str:
    """The text as a cell can hold it: no formula, no character that the format forbids, at most 32,767 units.

    Args:
        mark: stands at the end of a text that was cut.
    """
    clean = re.sub(_ILLEGAL, "", text.replace("\r\n", "\n").replace("\r", "\n"))
    return _fitting("'" + clean if re.match(_FORMULA, clean) else clean, mark)


def _fitting(clean: str, mark: str) -> str:
    # "_x0041_" would show as "A".
    clean = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", clean)
    if len(clean) * 2 > CELL_UNITS and len(clean.encode("utf-16-le")) > CELL_UNITS * 2:
        room = (CELL_UNITS - len(mark)) * 2
        clean = clean.encode("utf-16-le")[:room].decode("utf-16-le", errors="ignore") + mark
    return clean


def cells_to_xlsx(lines: Iterable[Sequence[str]]) -> bytes:
    """Lines of cells as an .xlsx file that reads back the same. Every cell is a text, whatever it begins with."""
    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    for line in lines:
        cells = [WriteOnlyCell(sheet, value=None) for _ in line]
        for cell, text in zip(cells, line, strict=True):
            cell.value = _fitting(re.sub(_ILLEGAL, "", text), "…") or None
            cell.data_type = "s" if cell.value else "n"
        sheet.append(cells)
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


class _Sheet:
    """A sheet written row by row."""

    def __init__(
        self, book: Workbook, title: str, widths: Sequence[int], texts: Texts, *, frozen: str | None = None
    ) -> None:
        self._sheet: Any = book.create_sheet(title)
        self._mark = texts.get("report.cut_mark")
        self._sheet.freeze_panes = frozen
        for number, width in enumerate(widths, start=1):
            self._sheet.column_dimensions[get_column_letter(number)].width = width
        self.height = 0

    def write(self, values: Iterable[object], *, head: bool = False, height: int | None = None) -> None:
        """One row; None is an empty cell. Without a height texts are not wrapped but run on over empty cells."""
        self.height += 1
        if height is not None:
            self._sheet.row_dimensions[self.height].height = height
        self._sheet.append([self._cell(value, head, wrapped=head or height is not None) for value in values])

    def _cell(self, value: object, head: bool, *, wrapped: bool) -> object:
        if value is None or value == "":
            return None
        cell = WriteOnlyCell(self._sheet, value=value if isinstance(value, (int, float)) else None)
        if isinstance(value, (int, float)):
            cell.number_format = "0" if isinstance(value, int) else "0.00"
        else:
            cell.value = safe_text(str(value), self._mark)
            # openpyxl takes what begins with "=" for a formula and "#N/A" for an error.
            cell.data_type = "s"
        if wrapped:
            cell.alignment = _WRAPPED
        if head:
            cell.font, cell.fill = _HEAD, _HEAD_FILL
        return cell

    def mark_low(self, columns: Sequence[tuple[int, float]], first_row: int) -> None:
        """Colours the scores of a column that lie below a limit."""
        for column, limit in columns:
            letter = get_column_letter(column)
            cells = f"{letter}{first_row}:{letter}{max(first_row, self.height)}"
            # An empty cell would count as 0.
            formula = f"AND(ISNUMBER({letter}{first_row}),{letter}{first_row}<{limit!r})"
            rule = FormulaRule(formula=[formula], fill=_LOW_FILL)  # type: ignore[no-untyped-call]
            self._sheet.conditional_formatting.add(cells, rule)

    def filterable(self, columns: int) -> None:
        self._sheet.auto_filter.ref = f"A1:{get_column_letter(columns)}{self.height}"


def _summary(book: Workbook, report: RunReport, texts: Texts) -> None:
    sheet = _Sheet(book, texts.get("report.sheet_summary"), (34, 16, 12, 12, 12, 12, 12, 12, 14, 14, 14, 24), texts)
    quoted = quoting(report, one_line, QUESTION_CHARACTERS)
    sheet.write([title_of(report, texts)])
    sheet.write([verdict(quoted, texts)])
    lines = [compared(quoted, texts), *remarks(quoted, texts), suggested_threshold(report, texts)]
    if not report.finished:
        lines.append(progress(report, texts))
    for line in filter(None, lines):
        sheet.write([line])
    sheet.write([])
    _means(sheet, report, texts)
    for category, of_metrics in report.categories.items():
        name = category or texts.get("report.no_category")
        for metric, stats in of_metrics.items():
            sheet.write([texts.get(f"metrics.{metric}"), name, *_numbers(stats)])
    if report.comparison is not None:
        sheet.write([])
        for note in not_compared(report.comparison, report.compared_with, texts):
            sheet.write([note])
    sheet.write([])
    for name, value in making(report, texts):
        sheet.write([name, value])
    sheet.write([])
    sheet.write([texts.get("report.formula_note")])
    sheet.write([texts.get("report.cut_note", mark=texts.get("report.cut_mark"))])


def _means(sheet: _Sheet, report: RunReport, texts: Texts) -> None:
    words = ["metric", "category", "mean", "low", "high", "count_scored", "count_partial", "count_not_applicable"]
    words += ["count_failed", "threshold", "verdict"]
    if report.comparison is not None:
        words += ["difference", "low", "high", "count_pairs", "lost", "sign"]
    sheet.write([texts.get(f"report.{word}") for word in words], head=True)
    for metric, stats in report.statistics.items():
        threshold = report.settings.thresholds.get(metric)
        word = None
        if threshold is not None and stats.mean is not None:
            reached = reaches(decisive(metric, stats, report), threshold)
            word = texts.get("report.reached" if reached else "report.not_reached")
        cells: list[object] = [texts.get(f"metrics.{metric}"), None, *_numbers(stats), threshold, word]
        if report.comparison is not None:
            found = report.comparison.differences[metric]
            cells += [found.mean, found.low, found.high, found.pairs, found.lost, sign_word(found, texts)]
        sheet.write(cells)


def _numbers(stats: MetricStatistics) -> list[object]:
    """Mean, both ends of its interval, and the counts."""
    return [stats.mean, stats.low, stats.high, stats.scored, stats.partial, stats.not_applicable, stats.failed]


def _rows(book: Workbook, report: RunReport, texts: Texts) -> None:
    columns = list(_columns(report, texts))
    widths = [width for _, width, _ in columns]
    sheet = _Sheet(book, texts.get("report.sheet_rows"), widths, texts, frozen="C2")
    sheet.write([name for name, _, _ in columns], head=True)
    for record in sorted(report.records, key=lambda record: (record.row, record.repetition)):
        sheet.write([value(record) for _, _, value in columns], height=_ROW_HEIGHT)
    metrics = {texts.get(f"metrics.{name}"): name for name in report.settings.metrics}
    limits = [
        (number, report.settings.thresholds.get(metrics[name], GOOD))
        for number, (name, _, _) in enumerate(columns, start=1)
        if name in metrics
    ]
    sheet.mark_low(limits, 2)
    sheet.filterable(len(columns))


def _columns(report: RunReport, texts: Texts) -> Iterator[tuple[str, int, Callable[[RowRecord], object]]]:
    """The columns of the rows' sheet: name, width in characters, and what a record has there."""
    metrics = report.settings.metrics
    yield texts.get("report.number"), 7, lambda record: record.row
    yield texts.get("report.question"), 40, lambda record: record.question
    if report.settings.repeat > 1:
        yield texts.get("report.repetition_column"), 8, lambda record: record.repetition
    if report.categories:
        yield texts.get("report.category"), 16, lambda record: record.category
    yield texts.get("report.answer"), 50, lambda record: record.answer
    yield texts.get("report.reference"), 40, lambda record: record.reference
    yield texts.get("report.state"), 14, lambda record: state_word(record, metrics, texts)
    for metric in metrics:
        yield texts.get(f"metrics.{metric}"), 12, partial(_score, metric)
    yield texts.get("report.finding"), 30, lambda record: _finding(record, texts)
    yield texts.get("report.step"), 36, lambda record: _step(record, texts)
    for metric in metrics:
        for listed in METRICS[metric].lists:
            if listed.role == "complaints":
                heading = texts.get(f"words.{metric}.lacking.{listed.key}")
                yield heading, 40, partial(_lacking, metric, listed.key, texts)
    yield texts.get("report.why_not_scored"), 40, lambda record: _why_not(record, metrics, texts)
    yield texts.get("report.retrieved"), 26, lambda record: _lines(_titles(record))
    yield texts.get("report.retrieved_texts"), 50, lambda record: "\n\n".join(_chunks(record))
    if any(record.document_scores for record in report.records):
        yield texts.get("report.missing_documents"), 26, lambda record: _lines(_missing(record))
    yield texts.get("report.app_seconds_column"), 10, lambda record: record.app_seconds or None
    yield texts.get("report.app_tokens"), 10, lambda record: record.app_tokens or None
    yield texts.get("report.tokens"), 10, lambda record: record.usage.get("total_tokens")
    if report.reused_rows:
        yield texts.get("report.reused"), 10, lambda record: texts.get("report.yes") if record.reused else None
    names = list(dict.fromkeys(name for record in report.records for name in record.inputs))
    for name in names[:MOST_INPUTS]:
        yield texts.get("report.input", column=name), 20, partial(_input, name)


def _score(metric: str, record: RowRecord) -> float | None:
    return record.score(metric)


def _input(name: str, record: RowRecord) -> str:
    return record.inputs.get(name, "")


def _lacking(metric: str, key: str, texts: Texts, record: RowRecord) -> str:
    return _lines(lacking(record, metric, key, texts))


def _lines(items: Iterable[str]) -> str:
    return "\n".join(items)


def _finding(record: RowRecord, texts: Texts) -> str:
    return _lines(texts.get(f"diagnosis.{found['name']}") for found in record.findings)


def _step(record: RowRecord, texts: Texts) -> str:
    return texts.get(f"settings_to_try.{record.findings[0]['settings'][0]}") if record.findings else ""


def _why_not(record: RowRecord, metrics: Sequence[str], texts: Texts) -> str:
    reasons = [why] if (why := row_failure(record, texts)) else []
    for metric, said in metric_failures(record, metrics, texts):
        reasons.append(texts.get("with_quotes", sentence=texts.get(f"metrics.{metric}"), quotes=said))
    return _lines(reasons)


def _titles(record: RowRecord) -> list[str]:
    return [f"{rank}. {chunk.get('title', '')}" for rank, chunk in enumerate(record.contexts, start=1)]


def _chunks(record: RowRecord) -> list[str]:
    return [f"{rank}. {chunk['text']}" for rank, chunk in enumerate(record.contexts, start=1)]


def _missing(record: RowRecord) -> list[str]:
    return list((record.document_scores or {}).get("missing_documents", ()))
