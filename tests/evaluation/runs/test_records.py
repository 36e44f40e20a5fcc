import json
from dataclasses import replace
from typing import Any

import pytest

from evaluation.errors import Reason
from evaluation.golden.table import Row
from evaluation.judging.models import ModelIdentity
from evaluation.result import MetricResult
from evaluation.runs.records import SCHEMA, RowRecord, RunSettings, fingerprint, kept_result, open_records
from evaluation.sample import Contexts
from tests.evaluation.runs.fakes import done, failed_metric, metric, settings

VERSIONS = {"faithfulness.verdicts": "1", "faithfulness": "1"}
RECORD = RowRecord(
    1,
    "有給休暇は何日ですか",
    reference="10日",
    answer="10日です",
    contexts=[{"text": "有給休暇は10日", "title": "規程.md", "documents": ["規程.md"]}],
)


def test_a_record_comes_back_as_it_was_kept() -> None:
    record = done(contexts=[{"text": "有給休暇は10日", "title": "", "documents": []}], inputs={"部署": "総務"})

    assert RowRecord.from_json(record.as_json()) == record


def test_half_a_character_can_be_kept() -> None:
    record = done(answer="10日\ud83d")

    assert RowRecord.from_json(record.as_json()) == record


def test_a_number_that_json_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        done(metrics={"faithfulness": metric(float("nan"))}).as_json()


def test_fields_that_a_later_build_has_added_are_passed_over() -> None:
    kept = json.loads(done().as_json()) | {"mood": "sunny"}

    assert RowRecord.from_json(json.dumps(kept).encode()) == done()


@pytest.mark.parametrize("schema", [None, 1, SCHEMA + 1])
def test_a_record_of_another_schema_is_refused(schema: object) -> None:
    kept = json.loads(done().as_json()) | {"schema": schema}

    with pytest.raises(ValueError, match="not a row's record"):
        RowRecord.from_json(json.dumps(kept).encode())


@pytest.mark.parametrize("kept", [b"", b"[]", b"7", b"{}", b'{"question": "x"}', b"\xff"])
def test_what_is_no_record_is_told(kept: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - some of the texts are the JSON library's
        RowRecord.from_json(kept)


def test_the_sample_holds_what_the_metrics_judge() -> None:
    sample = RECORD.sample

    assert (sample.question, sample.answer, sample.reference) == ("有給休暇は何日ですか", "10日です", "10日")
    assert sample.contexts.texts == ["有給休暇は10日"]
    assert sample.contexts.chunks[0].documents == ("規程.md",)


@pytest.mark.parametrize(
    ("kept", "hidden"),
    [("", ""), ("citations_off", "citations_off"), ("hidden_by_a_later_version", "contexts_not_visible")],
)
def test_the_sample_says_whether_the_retrieval_could_be_seen(kept: str, hidden: str) -> None:
    assert done(contexts_hidden=kept).sample.contexts == Contexts(hidden=Reason(hidden))


def test_scores_of_a_retrieval_that_found_nothing_are_not_those_of_one_that_can_not_be_seen() -> None:
    found_none, unseen = replace(RECORD, contexts=[]), replace(RECORD, contexts=[], contexts_hidden="citations_off")

    assert fingerprint(found_none, settings(), VERSIONS) != fingerprint(unseen, settings(), VERSIONS)


def test_a_kept_metric_is_a_result_again() -> None:
    claims = [{"id": 1, "text": "10日", "verdict": 1}]
    kept = metric(1.0, claims=claims)
    record = done(metrics={"faithfulness": kept})

    assert record.result("faithfulness") == MetricResult("faithfulness", "1", "scored", 1.0, details={"claims": claims})
    assert record.result("context_recall") is None
    assert record.metrics["faithfulness"] == kept


def test_no_detail_can_stand_in_for_a_score_or_a_reason() -> None:
    details = {"score": 0.0, "status": "failed", "reason": "made up", "version": "9", "reason_values": {"a": 1}}
    result = MetricResult("faithfulness", "1", "scored", 0.5, details=details)

    record = done(metrics={"faithfulness": kept_result(result, 10_000)})

    assert (record.score("faithfulness"), record.judged) == (0.5, True)
    assert record.result("faithfulness") == result


def test_settings_come_back_as_they_were_kept() -> None:
    made = settings(thresholds={"faithfulness": 0.7}, inputs={"部署": ["総務"], "年": 2026}, repeat=2)

    kept = json.loads(json.dumps(made.as_dict()))

    assert RunSettings.from_dict(kept) == made
    assert RunSettings.from_dict({**kept, "mood": 1}) == made


def test_a_reason_of_another_version_becomes_an_unexpected_problem() -> None:
    record = done(metrics={"faithfulness": failed_metric("out_of_ink")})

    result = record.result("faithfulness")
    assert result is not None
    assert result.reason is Reason.INTERNAL_ERROR


@pytest.mark.parametrize(
    ("metrics", "judged"),
    [
        ({"faithfulness": metric(0.5)}, True),
        ({"faithfulness": metric(None, "not_applicable", "no_claims")}, True),
        ({"faithfulness": metric(0.5, "partial", "verdicts_missing")}, True),
        ({"faithfulness": metric(0.5), "context_recall": failed_metric("timeout")}, False),
    ],
)
def test_a_row_is_judged_when_no_metric_failed(metrics: dict[str, Any], judged: bool) -> None:
    assert done(metrics=metrics).judged is judged


@pytest.mark.parametrize(
    "changes",
    [
        {"question": "夏季休暇は何日ですか"},
        {"answer": "20日です"},
        {"reference": "20日"},
        {"inputs": {"部署": "総務"}},
        {"contexts": []},
        {"contexts": [*RECORD.contexts, {"text": "日当は2,000円", "title": "", "documents": []}]},
    ],
)
def test_the_fingerprint_changes_with_what_is_judged(changes: dict[str, Any]) -> None:
    assert fingerprint(replace(RECORD, **changes), settings(), VERSIONS) != fingerprint(RECORD, settings(), VERSIONS)


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": ModelIdentity("scripts", "another", {"temperature": 0})},
        {"judge": ModelIdentity("elsewhere", "scripted", {"temperature": 0})},
        {"judge": ModelIdentity("scripts", "scripted", {"temperature": 1.5})},
        {"embedding_model": ModelIdentity("scripts", "e5")},
        {"options": {"depth": "careful", "question_count": 3}},
        {"options": {"depth": "standard", "question_count": 5}},
        {"options": {"depth": "standard", "question_count": 3, "similarity_weight": 0.5}},
        {"votes": 3},
        {"language": "en"},
        {"metrics": ("faithfulness",)},
        {"inputs": {"部署": "総務"}},
    ],
)
def test_the_fingerprint_changes_with_how_it_is_judged(changes: dict[str, Any]) -> None:
    assert fingerprint(RECORD, settings(**changes), VERSIONS) != fingerprint(RECORD, settings(), VERSIONS)


@pytest.mark.parametrize("name", VERSIONS)
def test_the_fingerprint_changes_with_the_version_of_a_prompt_or_metric(name: str) -> None:
    newer = {**VERSIONS, name: "2"}

    assert fingerprint(RECORD, settings(), newer) != fingerprint(RECORD, settings(), VERSIONS)


@pytest.mark.parametrize(
    ("record", "changed"),
    [
        # Where a row stands, and what is computed from its scores anew each time.
        ({"row": 7, "repetition": 2, "category": "休暇", "documents": "規程.md", "app_seconds": 3.0}, {}),
        ({}, {"thresholds": {"faithfulness": 0.9}, "repeat": 3, "app_id": "app-3"}),
    ],
)
def test_the_fingerprint_is_the_same_for_what_scores_do_not_depend_on(
    record: dict[str, Any], changed: dict[str, Any]
) -> None:
    other = fingerprint(replace(RECORD, **record), settings(**changed), VERSIONS)

    assert other == fingerprint(RECORD, settings(), VERSIONS)


def test_every_question_is_asked_once_before_any_is_asked_again() -> None:
    rows = [Row("一つ目", "A", "規程.md", "休暇", {"部署": "総務"}), Row("二つ目")]

    records = open_records(rows, 2)

    assert [record.key for record in records] == ["1-1", "2-1", "1-2", "2-2"]
    assert records[2] == RowRecord(1, "一つ目", 2, "A", "規程.md", "休暇", {"部署": "総務"})


def test_findings_of_another_build_that_there_are_no_words_for_are_left_out() -> None:
    known = {"name": "made_up", "settings": ["prompt_only_documents"]}
    others = [{"name": "a later rule", "settings": []}, {"name": "made_up", "settings": ["a later step"]}]
    kept = RowRecord(1, "質問", findings=[others[0], known, others[1]])
    assert RowRecord.from_json(kept.as_json()).findings == [known]
