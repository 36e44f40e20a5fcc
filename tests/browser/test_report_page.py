"""The report's page in a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evaluation.languages import LANGUAGES, Language
from evaluation.report.page import render_html
from evaluation.texts import load_texts
from tests.browser.browser import Browser
from tests.evaluation.report.test_page import hostile_run
from tests.evaluation.sample_runs import failed, report_of, sample_run

WIDTHS = (390, 1200)
# Elements that reach out of the window, also where the page itself does not scroll.
OUTSIDE = """
[...document.querySelectorAll("body *")]
  .filter(element => { const box = element.getBoundingClientRect();
                       return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5) })
  .map(element => element.tagName + "." + (element.getAttribute("class") || ""))
"""
UNFOLD = "document.querySelectorAll('details').forEach(each => each.open = true)"
# Relative luminance and contrast as WCAG 2 defines them, of every element that has text of its own.
CONTRAST = """
(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const channels = color => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = value => value <= .03928 ? value / 12.92 : ((value + .055) / 1.055) ** 2.4;
  const luminance = color => {
    const [r, g, b] = channels(color).slice(0, 3).map(value => linear(value / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = element => {
    const color = getComputedStyle(element).backgroundColor;
    return channels(color)[3] || !element.parentElement ? color : behind(element.parentElement);
  };
  const ratio = element => {
    const [dark, light] = [getComputedStyle(element).color, behind(element)].map(luminance).sort((a, b) => a - b);
    return (light + .05) / (dark + .05);
  };
  return [...document.querySelectorAll("body *")]
    .filter(element => !element.closest("svg"))
    .filter(element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
    .map(element => [ratio(element), element.tagName + "." + element.className, element.textContent.trim()])
    .filter(([found]) => found < 4.5);
})()
"""


def written(folder: Path, report: Any, language: Language) -> Path:
    path = folder / "report.html"
    path.write_text(render_html(report, load_texts(language)), encoding="utf-8")
    return path


@pytest.fixture(scope="module", params=LANGUAGES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp(request.param), sample_run(request.param), request.param)


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_reaches_out_of_the_window(browser: Browser, page: Path, width: int) -> None:
    browser.show(page, width)
    assert browser.value("innerWidth") == width
    for unfolded in (False, True):
        if unfolded:
            browser.value(UNFOLD)
        assert browser.value("document.documentElement.scrollWidth") == width
        assert browser.value(OUTSIDE) == []


def test_it_needs_nothing_but_itself_and_the_console_stays_empty(browser: Browser, page: Path) -> None:
    browser.show(page, 1200)
    browser.value(UNFOLD)
    assert browser.requests() == [page.as_uri()]
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(browser: Browser, page: Path, scheme: str) -> None:
    browser.show(page, 1200, scheme=scheme)
    browser.value(UNFOLD)
    background = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(244, 245, 247)") == (scheme == "light")
    assert browser.value(CONTRAST) == []


def test_rows_unfold_when_they_are_clicked(browser: Browser, page: Path) -> None:
    browser.show(page, 390)
    body = "document.querySelector('.row .row-body').checkVisibility()"
    assert browser.value(body) is False
    browser.value("document.querySelector('.row > summary').click()")
    assert browser.value(body) is True


def test_printing_unfolds_the_rows_with_a_problem(browser: Browser, page: Path) -> None:
    browser.show(page, 1200, medium="print")
    shown = "document.querySelector('.row{} .row-body').checkVisibility({{contentVisibilityAuto: true}})"
    assert browser.value(shown.format(".wrong")) is True
    assert browser.value(shown.format(":not(.wrong)")) is False
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_long_words_and_scripts_in_texts_change_nothing(browser: Browser, tmp_path: Path) -> None:
    text = "<script>document.title='run'</script>\"><img src=x onerror=\"document.title='run'\">" + "w" * 3000
    records = [hostile_run(text), failed(2, text, message=text)]
    report = replace(report_of(records, before=records, compared_with=text), name=text, app_name=text)
    page = written(tmp_path, report, "ja")
    for width in WIDTHS:
        browser.show(page, width)
        browser.value(UNFOLD)
        assert browser.value("document.documentElement.scrollWidth") == width
        assert browser.requests() == [page.as_uri()]
        assert browser.complaints() == []
        assert browser.value("document.title") != "run"
