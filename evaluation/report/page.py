"""The report of a run as one page that needs nothing else: no script, no file, no network."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from evaluation.report.page_rows import Limits
from evaluation.report.page_view import page_of
from evaluation.runs.summary import RunReport
from evaluation.texts import Texts

_FOLDER = Path(__file__).parent
# Of a page in bytes; it travels to Dify as hex in one line of at most 5 MiB.
MAX_BYTES = 2_000_000
# Tried in this order until the page is small enough. The last is: 10 rows with some 20 texts of 200 characters each.
LIMITS = (
    Limits(rows=20, text=4000, chunk=700, entry=400, entries=30, chunks=10),
    Limits(rows=20, text=1500, chunk=300, entry=200, entries=15, chunks=10),
    Limits(rows=10, text=400, chunk=120, entry=120, entries=8, chunks=5),
)


def render_html(report: RunReport, texts: Texts) -> str:
    """The report as an HTML page of at most 2 MB, in UTF-8. What is longer is shortened, which the page says."""
    texts = texts.of_runs()
    for limits in LIMITS:
        page = _template().render(page_of(report, texts, limits), t=texts.get, style=_style()).lstrip()
        if len(page.encode()) <= MAX_BYTES:
            break
    return page


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.jinja")


@cache
def _style() -> str:
    return (_FOLDER / "report.html.css").read_text(encoding="utf-8")
