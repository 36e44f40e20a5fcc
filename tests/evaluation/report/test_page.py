"""The report as a page."""

import re
from dataclasses import replace
from typing import Any

import pytest

from evaluation.judging.models import ModelIdentity
from evaluation.languages import LANGUAGES, Language
from evaluation.report import page as subject
from evaluation.report.numbers import interval_text
from evaluation.report.page import MAX_BYTES, render_html
from evaluation.runs.names import RunName
from evaluation.runs.records import RowRecord
from evaluation.texts import load_texts
from tests.evaluation.pages import Page
from tests.evaluation.report.test_run_report import every_kind_of_run
from tests.evaluation.runs.fakes import run_head, run_summary
from tests.evaluation.sample_runs import failed, record, report_of, sample_run, settings

JA = load_texts("ja")
SECTIONS = ["verdict", "first-steps", "scores", "comparison", "categories", "rows", "failures", "making"]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title><b>bold</b>",
    "{{7*7}}",
    "{% for x in y %}",
    "{# note #}",
    "[link](https://a.example) **bold** | cell |",
    "javascript:alert(1)",
    "&lt;i&gt;",
    "\u202egnp.exe",
    "\x00\x1b[31m",
    "\ud83d half",
]


def page_of(*args: Any, **options: Any) -> Page:
    return Page(render_html(report_of(*args, **options), JA))


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_html(sample_run("ja"), JA))


# --- its parts ---


def test_the_verdict_comes_first_and_the_cost_last(page: Page) -> None:
    assert [element.attributes["id"] for element in page.all("section")] == SECTIONS
    assert page.section("verdict").startswith("合格 合格です。")


def test_the_verdict_shows_how_the_rows_ended(page: Page) -> None:
    shares = page.all("div", class_="shares")
    assert len(shares) == 1
    legend = " ".join(page.all("ul", class_="legend")[0].text.split())
    # 20 rows: 6 + 11 + 3
    assert legend == "6 問題なし 11 問題あり 3 採点できず"


def test_a_threshold_that_is_not_reached_makes_it_fail() -> None:
    failing = Page(render_html(sample_run("ja", thresholds={"faithfulness": 0.95}), JA))
    assert failing.section("verdict").startswith(
        "不合格 不合格です。忠実性の平均 0.88 がしきい値 0.95 に届いていません"
    )
    assert failing.all("section", id="verdict")[0].attributes["class"] == "card verdict bad"


def test_the_setting_to_change_leads_to_its_rows(page: Page) -> None:
    first = page.section("first-steps")
    assert first.startswith("最初に変えること 「知識検索」ノードの「検索設定」で、「トップ K」を増やす")
    assert "該当する質問 20件のうち5件 #2 #4 #17 #9 #3" in first
    links = {element.attributes["href"] for element in page.all("a")}
    rows = {f"#{element.attributes['id']}" for element in page.all("details", class_="row")}
    assert links
    assert links <= rows


def test_at_most_three_things_to_change_are_shown(page: Page) -> None:
    assert len(sample_run("ja").findings) > 3
    assert len(page.all("ol", class_="findings")) == 1
    assert page.section("first-steps").count("該当する質問") == 3


def test_every_score_has_a_picture_with_its_number_and_its_counts(page: Page) -> None:
    scores, stats = page.section("scores"), sample_run("ja").statistics["faithfulness"]
    assert stats.low is not None
    assert stats.high is not None
    numbers = f"0.88 {interval_text(stats.low, stats.high)}"
    assert f"忠実性 資料に書かれていることだけを答えているか {numbers}" in scores
    assert "しきい値 0.80 採点 16件 対象外 2件 採点できず 2件" in scores
    pictures = [element for element in page.all("svg") if element.path.count("section") == 1]
    # Four scores and four differences.
    assert [picture.attributes["role"] for picture in pictures] == ["img"] * 8
    assert pictures[0].attributes["aria-label"] == f"忠実性 {numbers}"


def test_a_pictures_parts_stand_where_the_numbers_are() -> None:
    records = [record(row, faithfulness=score) for row, score in enumerate([0.25] * 5 + [0.75] * 5, start=1)]
    made = page_of(records, settings=settings(thresholds={"faithfulness": 0.8}, metrics=("faithfulness",)))
    stats = report_of(records).statistics["faithfulness"]
    assert stats.low is not None
    assert stats.high is not None
    assert made.all("circle")[0].attributes["cx"] == "50.00%"
    assert made.all("line", class_="limit")[0].attributes["x1"] == "80.00%"
    band = made.all("rect", class_="band")[0].attributes
    assert band["x"] == f"{100 * stats.low:.2f}%"
    assert band["width"] == f"{100 * (stats.high - stats.low):.2f}%"


def test_a_metric_without_a_score_has_no_picture() -> None:
    made = page_of([record(1, faithfulness=1.0, context_recall=None)])
    assert len(made.all("svg")) == 1
    assert "しきい値 0.80 採点 1件" in made.section("scores")
    assert "必要コンテキストの網羅性 正解に必要な内容を検索できているか 未評価" in made.section("scores")


def test_the_comparison_says_what_changed(page: Page) -> None:
    english = Page(render_html(sample_run("en"), load_texts("en"))).section("comparison")
    assert english.startswith("Compared with “Shop helpdesk, longer chunks #1” Faithfulness better +0.31 +0.07 – +0.57")
    assert "#3 Can I exchange shoes that I have worn once? Faithfulness 0.00 → 1.00" in english
    assert "明らかな差なし" in page.section("comparison")


def test_other_settings_of_the_run_before_are_told() -> None:
    records = [record(row, f"質問{row}", faithfulness=1.0) for row in range(1, 4)]
    other = settings(judge=ModelIdentity("", "other"))
    made = page_of(records, before=records, compared_with="x #1", settings_before=other)
    assert "「x #1」とは次の設定が違うため、差にはその影響も入っています：判定モデル" in made.section("comparison")


def test_the_last_runs_and_the_other_names_are_listed() -> None:
    past = [
        run_summary(2, 3, done=2, finished=False, passed=None),
        run_summary(1, 3, passed=True, metrics={"faithfulness": {"mean": 0.999}, "context_recall": {"mean": None}}),
    ]
    names = [RunName("run"), RunName("基準"), RunName("", "app-7", "社内規程ボット"), RunName("", "app-8")]
    made = page_of([record(1, faithfulness=1.0)], past=past, names=names).section("past")

    assert "#2 忠実性 0.50 2026-11-30 18:00（日本時間）・別のアプリ・途中 2/3" in made
    assert "#1 忠実性 0.99 2026-11-30 18:00（日本時間）・別のアプリ 合格" in made
    assert made.endswith("今回の結果と比べます）： 基準、社内規程ボット、app-8")


def test_of_a_run_without_a_name_the_apps_own_is_not_among_the_others() -> None:
    own = settings().app_id
    made = page_of([record(1, faithfulness=1.0)], names=[RunName("", own), RunName("", "app-8", "別のボット")])

    assert "別のボット" in made.section("past")
    assert own not in made.section("past")


def test_a_first_run_under_the_only_name_has_no_list() -> None:
    assert page_of([record(1, faithfulness=1.0)], names=[RunName("run")]).section("past") == ""


def test_a_run_without_an_earlier_one_has_no_comparison() -> None:
    assert page_of([record(1, faithfulness=1.0)]).section("comparison") == ""


def test_categories_come_worst_first_with_their_counts(page: Page) -> None:
    names = [element.text.split()[0] for element in page.all("th", scope="row")]
    assert names == ["経費", "休暇", "在宅勤務", "情報システム"]
    assert "経費 5件 忠実性 0.83 3件" in page.section("categories")


def test_rows_hold_answer_reference_chunks_claims_and_reasons(page: Page) -> None:
    row = next(element for element in page.all("details", class_="row") if element.attributes["id"] == "row-5-1")
    text = " ".join(row.text.split())
    assert text.startswith("#5 日帰り出張の日当はいくらですか？ 経費 忠実性 0.50")
    for part in (
        "資料と食い違う内容を答えています",
        "回答 日帰り出張の日当は1日3,000円です。",
        "参照（正解） 片道100km以上の日帰り出張で、1日2,000円です。",
        "✕ 日当は1日3,000円である （資料と食い違い） 資料では2,000円となっている",
        "✓ 片道100km以上が対象である 資料に同じ距離がある",
        "検索されたチャンク 2件 ✓ 1 出張旅費.md",
    ):
        assert part in text


def test_everything_of_a_row_is_folded(page: Page) -> None:
    assert len(page.all("details", class_="row")) == 18
    assert not any("open" in element.attributes for element in page.all("details"))


def test_a_metric_that_failed_shows_in_the_rows_head(page: Page) -> None:
    row = next(element for element in page.all("details", class_="row") if element.attributes["id"] == "row-15-1")
    assert " ".join(row.text.split()).startswith(
        "#15 新しいソフトを入れたいときの手順は？ 情報システム コンテキスト精度 未評価"
    )


def test_what_could_not_be_scored_is_listed_with_the_reason(page: Page) -> None:
    failures = page.section("failures")
    assert failures.startswith("採点できなかった質問 3件 #15 新しいソフト")
    assert "コンテキスト精度 判定モデルの返答を読み取れませんでした" in failures
    assert "アプリ アプリがエラーになりました（Model provider returned 503: upstream connect error）" in failures
    assert "アプリ アプリの回答が制限時間内に終わりませんでした" in failures


def test_how_it_was_made_and_what_it_cost_is_told(page: Page) -> None:
    making = page.section("making")
    for part in (
        "判定モデル gpt-4o-mini",
        "埋め込みモデル text-embedding-3-small",
        "評価の深さ 標準",
        "判定の回数 1回",
        "モデルの呼び出し 判定 90回、埋め込み 18回",
        "判定のトークン 42,120",
        "判定の料金 $0.0083",
        "開始 2026-11-30 18:15（日本時間）",
        "recall.parts",
    ):
        assert part in making


def test_an_apps_id_stands_only_where_the_run_is_described() -> None:
    report = report_of([record(1, faithfulness=1.0)])
    page = Page(render_html(replace(report, app_name=""), JA))
    assert page.text.count(report.settings.app_id) == 1
    assert report.settings.app_id in page.section("making")


def test_repetitions_of_a_question_are_told_apart() -> None:
    records = [record(1, repetition=again, faithfulness=0.1 * again) for again in (1, 2)]
    made = page_of(records, settings=settings(repeat=2))
    assert [row.attributes["id"] for row in made.all("details", class_="row")] == ["row-1-1", "row-1-2"]
    assert "2回目" in made.section("rows")
    assert "質問のくり返し 2回" in made.section("making")


def test_twenty_rows_are_shown_and_the_rest_is_named() -> None:
    records = [record(row, f"質問{row}", faithfulness=row / 100) for row in range(1, 31)]
    made = page_of(records)
    assert len(made.all("details", class_="row")) == 20
    assert (
        "採点した30件のうち、スコアの平均が低い20件です（低い順）。残りは表計算ファイル（.xlsx）にあります"
        in made.section("rows")
    )


def test_an_unfinished_run_says_how_far_it_is() -> None:
    made = page_of([record(1, faithfulness=1.0), RowRecord(2, "質問"), RowRecord(3, "質問")])
    assert "途中 1/3" in made.section("verdict")
    assert "2 未実行" in made.section("verdict")


# --- in every language, for every kind of run ---


def structure(page: Page) -> list[tuple[str, str | None, str | None]]:
    return [(element.tag, element.attributes.get("class"), element.attributes.get("id")) for element in page.elements]


def test_all_languages_have_the_same_structure() -> None:
    # The texts of one run in each language: only the words differ.
    report = sample_run("ja")
    pages = {language: Page(render_html(report, load_texts(language))) for language in LANGUAGES}
    assert structure(pages["ja"]) == structure(pages["en"]) == structure(pages["zh"])
    tags = {language: page.all("html")[0].attributes["lang"] for language, page in pages.items()}
    assert tags == {"ja": "ja", "en": "en", "zh": "zh-Hans"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_shows_a_missing_value(language: Language) -> None:
    for report in every_kind_of_run(language):
        page = Page(render_html(report, load_texts(language)))
        assert not re.search(r"\bNone\b(?! of )|\bnan\b|undefined|[{}]", page.text)
        assert not any(re.search("None|nan", value or "") for e in page.elements for value in e.attributes.values())


# --- it needs nothing and runs nothing ---


def test_it_asks_for_nothing_from_elsewhere(page: Page) -> None:
    fetching = {"script", "link", "img", "iframe", "object", "embed", "video", "audio", "source", "base", "form"}
    assert not fetching & {element.tag for element in page.elements}
    attributes = [(name, value or "") for element in page.elements for name, value in element.attributes.items()]
    assert not any(name.startswith("on") for name, _ in attributes)
    assert all(value.startswith("#") for name, value in attributes if name in {"href", "src", "srcset", "xlink:href"})
    assert not re.search(r"url\(|@import|expression\(", page.source)


def test_it_forbids_scripts_and_requests_also_to_itself(page: Page) -> None:
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def hostile_run(text: str) -> RowRecord:
    made = record(1, text, faithfulness=0.5, context_precision=0.0, context_recall=0.0, answer_relevancy=0.1)
    entry = {"id": 1, "text": text, "verdict": 0, "reason": text, "kind": "absent"}
    details = {
        "faithfulness": {"claims": [entry]},
        "context_recall": {"parts": [entry]},
        "context_precision": {"chunks": [{"rank": 1, **entry}]},
        "answer_relevancy": {"method": "embedding", "questions": [{"text": text, "similarity": 0.1}]},
    }
    for name, found in details.items():
        made.metrics[name]["details"] = found
    return replace(
        made,
        answer=text,
        reference=text,
        category=text,
        contexts=[{"text": text, "title": text, "documents": [text]}],
        findings=[{"name": "made_up", "settings": ["model"]}],
    )


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_text_of_users_and_models_shows_as_it_is(text: str) -> None:
    def build(value: str) -> Page:
        records = [hostile_run(value), failed(2, value, message=value)]
        before = [replace(made, metrics={"faithfulness": {"score": 1.0}}) for made in records]
        model = ModelIdentity("openai", value, {"stop": value})
        made_with = settings(judge=model, embedding_model=model, inputs={"部署": value})
        past = [replace(run_summary(1), head=replace(run_head(1), name=value, app_name=value, started_at=value))]
        listed = {"past": past, "names": [RunName(value), RunName("", "app", value)]}
        report = report_of(records, before=before, compared_with=value, settings=made_with, **listed)
        return Page(render_html(replace(report, name=value, app_name=value, started_at=value), JA))

    hostile, harmless = build(text), build("harmless")
    # Not an element or an attribute more than from a harmless text, and the text where the harmless one was.
    assert structure(hostile) == structure(harmless)
    assert [set(e.attributes) for e in hostile.elements] == [set(e.attributes) for e in harmless.elements]
    seen = re.sub(r"[\x00\x1b\u202e\ud83d]", "", text).strip()
    assert hostile.text.count(seen) >= harmless.text.count("harmless")
    assert not re.search(r"[\x00\x1b\u202e\ud800-\udfff]", hostile.source)
    assert "49" not in hostile.section("rows")


def test_texts_of_either_direction_stay_apart(page: Page) -> None:
    assert all(element.attributes["dir"] == "auto" for element in page.all("div", class_="text"))
    assert len(page.all("bdi")) > 100


# --- bounded ---


def long_run(rows: int, characters: int) -> list[RowRecord]:
    """Rows whose every text is long and made of what grows most when it is escaped."""
    text = "'" * characters
    return [replace(hostile_run(text), row=row, category=f"{row}{text}") for row in range(1, rows + 1)]


def test_500_long_rows_stay_under_the_limit() -> None:
    for made in (records := long_run(500, 6000)):
        made.contexts *= 20
        made.metrics["faithfulness"]["details"]["claims"] *= 60
        made.metrics["context_precision"]["details"]["chunks"] *= 20
    page = render_html(report_of([*records, *(failed(row, "'" * 5000) for row in range(501, 601))]), JA)
    assert 100_000 < len(page.encode()) <= MAX_BYTES
    text = Page(page).text
    for said in ("長いため省略しました", "ほか50件は、表計算ファイルにあります", "ほかの471カテゴリは、表計算ファイル"):
        assert said in text


def test_long_lists_are_cut_and_say_by_how_much() -> None:
    made = hostile_run("短い文")
    made.metrics["faithfulness"]["details"]["claims"] *= 40
    made.contexts *= 14
    rows = page_of([made]).section("rows")
    # 30 claims, one part, one question's text, 10 chunks.
    assert rows.count("ほか10件") == 1
    assert rows.count("ほか4件") == 1
    assert rows.count("✕ 短い文 （資料にない） 短い文") == 30 + 1


def test_what_does_not_fit_is_shortened_further(monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(long_run(30, 3000))
    whole = len(render_html(report, JA).encode())
    monkeypatch.setattr(subject, "MAX_BYTES", whole - 1)
    assert len(render_html(report, JA).encode()) < whole
