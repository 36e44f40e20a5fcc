import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from devhost.dify_side import Storage
from evaluation.errors import EvaluationError, Reason
from evaluation.runs import packing
from evaluation.runs.heads import RunHead, RunSummary
from evaluation.runs.packing import light
from evaluation.runs.records import SCHEMA, RowRecord
from evaluation.runs.store import BEGUN_AT_ONCE, INDEX_ROWS, RunStore, run_base
from evaluation.storage.values import MAX_VALUE_BYTES
from tests.evaluation.runs.fakes import MemoryValues, done, failed_metric, metric, run_head, run_summary

BASE = run_base("朝の評価", "app-2")


def refused(call: Callable[[], object]) -> Reason:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value.reason


# --- heads and summaries ---


def test_a_head_comes_back_as_it_was_written() -> None:
    runs = RunStore(MemoryValues(), BASE)

    runs.write_head(run_head(3, 2, fresh=True, app_name="社内規程ボット"))

    assert runs.numbers() == (1, 3)
    assert runs.head(3) == run_head(3, 2, fresh=True, app_name="社内規程ボット")
    assert runs.head(2) is None


def test_a_summary_can_be_read_without_any_row() -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1))
    runs.write_head(run_head(2))
    runs.write_summary(run_summary(1))
    read: list[str] = []
    values.before = lambda _operation, key: read.append(key.rsplit("/", 1)[-1])

    assert runs.summaries([1, 2]) == [run_summary(1), None]
    # That of the second run is missing, which the storage tells at a second look.
    assert read == ["summary"] * 3


def test_a_run_knows_the_names_of_its_rows_in_the_order_in_which_they_are_asked() -> None:
    made = run_head(1, 2)

    assert replace(made, settings=replace(made.settings, repeat=2)).keys == ["1-1", "2-1", "1-2", "2-2"]


def test_a_name_without_runs_has_none() -> None:
    runs = RunStore(MemoryValues(), BASE)

    assert runs.numbers() == (1, 0)
    assert runs.head(1) is None
    assert runs.summary(1) is None
    assert runs.read_row(1, "1-1") is None
    assert runs.index(run_head()) == []


def test_runs_of_different_names_and_of_different_apps_without_a_name_do_not_meet() -> None:
    values = MemoryValues()
    bases = {run_base(*name) for name in (("朝", "app-1"), ("夜", "app-1"), ("", "app-1"), ("", "app-2"))}

    assert len(bases) == 4
    # A name is one for all apps.
    assert run_base("朝", "app-1") == run_base("朝", "app-2")
    RunStore(values, run_base("", "app-1")).write_head(run_head(4))
    assert RunStore(values, run_base("", "app-2")).numbers() == (1, 0)


@pytest.mark.parametrize("name", ["x" * 10_000, "評価" * 500, "../../etc", "a/b\n\0", "  ", "🌞\ud83d"])
def test_any_name_gives_keys_that_dify_takes(name: str) -> None:
    values = MemoryValues()
    runs = RunStore(values, run_base(name, "app"))
    runs.write_head(run_head())
    runs.write_row(1, done())

    assert max(len(key.encode()) for key in values.names()) < 200
    assert runs.read_row(1, "1-1") == done()


def test_a_run_whose_note_another_writer_has_overwritten_is_found() -> None:
    # Two runs of a name begin at once: of two writes to a key the storage keeps one.
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1))
    runs.write_head(run_head(2))
    runs.write_head(run_head(3))
    runs.write_numbers(1, 1)

    assert runs.numbers() == (1, 3)


@pytest.mark.parametrize("damage", [b"", b"[]", b"{", b'{"schema": 2, "settings": 1}', b'{"schema": 2}'])
def test_a_damaged_head_counts_as_not_there_and_its_number_stays_taken(damage: bytes) -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(2))
    values.storage.set(runs.key(2, "head"), damage)

    assert runs.head(2) is None
    assert runs.numbers() == (1, 2)


def changed(values: MemoryValues, key: str, **fields: Any) -> None:
    kept = json.loads(values.get(key)) | fields
    values.storage.set(key, json.dumps({name: value for name, value in kept.items() if value is not None}).encode())


def test_fields_that_a_later_build_has_added_are_passed_over() -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1))
    runs.write_summary(run_summary(1))
    for name in ("head", "summary"):
        changed(values, runs.key(1, name), mood="sunny")

    assert runs.head(1) == run_head(1)
    assert runs.summary(1) == run_summary(1)


@pytest.mark.parametrize("schema", [None, 1, SCHEMA + 1, "2"])
def test_what_another_version_has_kept_is_known_as_such_and_never_misread(schema: object) -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1))
    runs.write_summary(run_summary(1))
    assert not runs.is_foreign(1)
    for name in ("head", "summary"):
        changed(values, runs.key(1, name), schema=schema)

    assert (runs.head(1), runs.summary(1)) == (None, None)
    assert runs.is_foreign(1)
    assert not runs.is_foreign(2)


@pytest.mark.parametrize("kind", [RunHead, RunSummary])
def test_no_detail_is_taken_for_a_head(kind: Any) -> None:
    assert kind.from_dict({}) is None
    assert kind.from_dict({"schema": SCHEMA, "number": 1}) is None


# --- rows ---


def test_each_row_has_a_key_of_its_own() -> None:
    values = MemoryValues()
    written: list[str] = []
    values.before = lambda operation, key: written.append(key) if operation == "set" else None
    runs = RunStore(values, BASE)

    for row in range(1, 21):
        runs.write_row(1, done(row, f"f{row}"))

    # One for the row, one for its scores, and none that two rows write.
    assert len(written) == len(set(written)) == 40
    kept = runs.read_rows(1, [f"{row}-1" for row in range(1, 22)])
    assert kept == [*[done(row, f"f{row}") for row in range(1, 21)], None]


@pytest.mark.parametrize("damage", [b"", b"not packed", b"{}", packing.packed(done())[:-9]])
def test_a_damaged_row_counts_as_not_there(damage: bytes) -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_row(1, done())
    values.storage.set(runs.key(1, "1-1"), damage)

    assert runs.read_row(1, "1-1") is None


def test_a_storage_that_fails_does_not_look_empty() -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head())
    runs.write_row(1, done())

    def fail(operation: str, _key: str) -> None:
        if operation == "get":
            raise ConnectionError("lost")

    values.before = fail

    assert refused(runs.numbers) is Reason.STORAGE_FAILED
    assert refused(lambda: runs.read_row(1, "1-1")) is Reason.STORAGE_FAILED
    assert refused(lambda: runs.read_rows(1, ["1-1", "2-1"])) is Reason.STORAGE_FAILED
    # Scores can be given anew.
    assert runs.find_scores("f1", 1, 2) is None


# --- size ---


def test_a_full_storage_is_told_and_the_value_may_be_there() -> None:
    values = MemoryValues(Storage(limit=10))
    runs = RunStore(values, BASE)

    assert refused(lambda: runs.write_row(1, done())) is Reason.STORAGE_FULL
    assert runs.read_row(1, "1-1") == done()


def test_another_refusal_is_told_apart_from_a_full_storage() -> None:
    values = MemoryValues()

    def fail(operation: str, _key: str) -> None:
        if operation == "set":
            raise PermissionError("permission denied")

    values.before = fail

    assert refused(lambda: RunStore(values, BASE).write_head(run_head())) is Reason.STORAGE_FAILED


def long_text(characters: int, seed: int = 0) -> str:
    """Text that can't be packed well."""
    return "".join(map(chr, random.Random(seed).choices(range(0x4E00, 0x9FFF), k=characters)))


def large(chunks: int, characters: int, **changes: Any) -> RowRecord:
    contexts = [
        {"text": long_text(characters, seed), "title": "規程.md", "documents": ["規程.md"]} for seed in range(chunks)
    ]
    return done(contexts=contexts, **changes)


@pytest.mark.parametrize(("chunks", "limit"), [(3, 90_000), (400, 90_000), (4_000, MAX_VALUE_BYTES)])
def test_a_record_that_is_too_large_is_cut_to_what_goes_through_in_one_line(
    monkeypatch: pytest.MonkeyPatch, chunks: int, limit: int
) -> None:
    monkeypatch.setattr(packing, "MAX_VALUE_BYTES", limit)
    values = MemoryValues()
    runs = RunStore(values, BASE)
    claims = [{"id": n, "text": long_text(200, n), "verdict": 1} for n in range(200)]
    metrics = {name: metric(0.5, claims=claims) for name in ("faithfulness", "context_recall")}
    record = large(chunks, limit * 2 // 3 // chunks, answer=long_text(limit // 10), metrics=metrics)

    runs.write_row(1, record)

    assert max(map(len, values.storage.snapshot().values())) <= limit
    kept = runs.read_row(1, "1-1")
    assert kept is not None
    assert (kept.state, kept.question, kept.fingerprint) == ("done", record.question, record.fingerprint)
    assert {name: kept.score(name) for name in metrics} == {"faithfulness": 0.5, "context_recall": 0.5}
    assert len(record.as_json()) > len(kept.as_json())
    for cut, whole in zip(kept.contexts, record.contexts, strict=False):
        assert cut["text"] == whole["text"] or (cut["text"][-1] == "…" and whole["text"].startswith(cut["text"][:-1]))


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "answered", "metrics": {}},
        {"state": "done", "metrics": {"faithfulness": failed_metric("timeout")}},
    ],
)
def test_what_is_still_to_be_judged_is_never_kept_cut(monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]) -> None:
    # Scores of half of a chunk would be taken for those of the whole.
    monkeypatch.setattr(packing, "MAX_VALUE_BYTES", 90_000)
    runs = RunStore(MemoryValues(), BASE)

    runs.write_row(1, replace(large(3, 20_000), **changes))

    kept = runs.read_row(1, "1-1")
    assert kept is not None
    assert (kept.state, kept.answer, kept.contexts, kept.metrics) == ("open", "", [], {})


def test_an_ordinary_record_is_kept_whole() -> None:
    runs = RunStore(MemoryValues(), BASE)
    record = large(20, 800)

    runs.write_row(1, record)

    assert runs.read_row(1, "1-1") == record


# --- scores ---


def judged(values: MemoryValues, number: int, *records: RowRecord) -> RunStore:
    runs = RunStore(values, BASE)
    for record in records:
        runs.write_row(number, record)
    return runs


def test_scores_are_found_by_their_fingerprint_from_any_run() -> None:
    values = MemoryValues()
    judged(values, 1, done(1, "f1"), done(2, "f2"))
    others = RunStore(values, run_base("夜の評価", "app-2"))

    assert others.find_scores("f2", 1, 1) == done(2, "f2")
    assert others.find_scores("f3", 1, 1) is None


def test_scores_are_never_taken_from_the_run_itself() -> None:
    values = MemoryValues()
    runs = judged(values, 2, done(1, "f1"))

    assert runs.find_scores("f1", 1, 2) is None
    assert runs.find_scores("f1", 1, 3) is not None


def test_each_repetition_has_scores_of_its_own() -> None:
    values = MemoryValues()
    second = replace(done(1, "f1", metrics={"faithfulness": metric(0.9)}), repetition=2)
    runs = judged(values, 1, done(1, "f1"), second)

    assert runs.find_scores("f1", 1, 2) == done(1, "f1")
    assert runs.find_scores("f1", 2, 2) == second
    assert runs.find_scores("f1", 3, 2) is None


@pytest.mark.parametrize(
    "record",
    [
        done(fingerprint="f1", metrics={"faithfulness": failed_metric("rate_limited")}),
        replace(done(fingerprint="f1"), state="answered", metrics={}),
        replace(done(fingerprint="f1"), state="failed", app_reason="app_failed"),
    ],
)
def test_scores_of_a_row_that_is_not_judged_are_not_found(record: RowRecord) -> None:
    assert judged(MemoryValues(), 1, record).find_scores("f1", 1, 2) is None


def test_scores_whose_row_has_others_now_are_not_found() -> None:
    runs = judged(MemoryValues(), 1, done(fingerprint="f1"), done(fingerprint="f2"))

    assert runs.find_scores("f1", 1, 2) is None
    assert runs.find_scores("f2", 1, 2) == done(fingerprint="f2")


# --- the index ---


def test_the_index_has_of_each_row_what_lists_and_comparisons_need() -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    found = metric(0.5, claims=[{"id": 1, "text": "主張", "verdict": 0}])
    changes = {"reference": "正解", "inputs": {"部署": "総務"}, "category": "休暇", "contexts": [{"text": "x" * 900}]}
    records = [
        *[done(row, f"f{row}", metrics={"faithfulness": found}, **changes) for row in range(1, INDEX_ROWS + 1)],
        RowRecord(INDEX_ROWS + 1, "開いたまま"),
        replace(done(INDEX_ROWS + 2), state="failed", app_reason="app_failed", metrics={}),
    ]

    runs.write_index(1, records)

    kept = runs.index(run_head(1, len(records)))
    assert kept == [light(record) for record in records]
    assert (kept[0].reference, kept[0].inputs, kept[0].category) == ("正解", {"部署": "総務"}, "休暇")
    assert (kept[0].score("faithfulness"), kept[0].fingerprint) == (0.5, "f1")
    assert (kept[0].contexts, kept[0].answer, kept[0].metrics["faithfulness"]["details"]) == ([], "", {})
    assert [record.state for record in kept[-2:]] == ["open", "failed"]
    parts = [key for key in values.names() if "/index/" in key]
    assert len(parts) == 2


def test_long_texts_in_the_index_stay_told_apart() -> None:
    long = "同じ始まりの質問" * 100
    one, other = light(done(question=long + "？")), light(done(question=long + "。"))

    assert one.question != other.question
    assert one == light(done(question=long + "？")) == light(one)
    assert len(one.question) == packing.INDEX_CHARACTERS
    assert light(done(question="x" * 300)).question == "x" * 300


@pytest.mark.parametrize("damage", [b"", b"{}", packing.packed(done())])
def test_a_damaged_part_of_an_index_gives_no_rows(damage: bytes) -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_index(1, [done(row) for row in range(1, INDEX_ROWS + 2)])
    values.storage.set(runs.key(1, "index/0"), damage)

    assert [record.row for record in runs.index(run_head(1, INDEX_ROWS + 1))] == [INDEX_ROWS + 1]


def test_a_part_of_an_index_goes_through_in_one_line() -> None:
    # Rows whose every text is long and another one, which can't be packed well.
    four = {name: metric(0.123456789) for name in ("a", "b", "c", "d")}
    rows = [
        done(row, f"{row:032}", question=long_text(900, row), reference=long_text(900, -row), metrics=four)
        for row in range(1, INDEX_ROWS + 1)
    ]

    assert len(packing.packed_index([light(row) for row in rows])) < MAX_VALUE_BYTES / 2


@pytest.mark.parametrize(
    "damaged", [{"number": "x", "oldest": None}, {"number": [], "oldest": -1}, {"rows": "all"}, {}]
)
def test_numbers_that_are_none_count_as_missing(damaged: dict[str, Any]) -> None:
    values = MemoryValues()
    runs = RunStore(values, BASE)
    runs.write_head(run_head(1))
    runs.write_head(run_head(2))
    values.storage.set(f"{BASE}/head", json.dumps(damaged).encode())
    values.storage.set(runs.key(1, "begun"), json.dumps(damaged).encode())

    assert runs.numbers() == (1, 2)
    assert runs.begun(1) == BEGUN_AT_ONCE
