"""Tables kept by name: versions, two editors at once, a storage that loses, refuses or breaks in between."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from evaluation.errors import EvaluationError, Reason
from evaluation.golden import kept
from evaluation.golden.kept import KEPT_VERSIONS, ConflictError, KeptTable, KeptTables
from evaluation.golden.kept_rows import KeptRow, Source, appended
from evaluation.golden.table import Row
from evaluation.storage import lock
from tests.evaluation.runs.fakes import Killed, MemoryValues

NAME = "経費の質問"


def rows(*texts: str) -> list[KeptRow]:
    return [KeptRow(Row(text, f"{text}の答え"), id=text) for text in texts]


def save(values: MemoryValues, *texts: str, base: int | None = None, by: str = "u-1", name: str = NAME) -> KeptTable:
    return KeptTables(values).save(name, lambda _: rows(*texts), base=base, by=by)[0]


def add(values: MemoryValues, *texts: str) -> KeptTable:
    return KeptTables(values).save(NAME, lambda old: appended(old, rows(*texts))[0])[0]


def questions(values: MemoryValues, number: int | None = None) -> list[str]:
    return [one.row.question for one in KeptTables(values).read(NAME, number).rows]


def refused(call: Callable[[], object]) -> EvaluationError:
    with pytest.raises(EvaluationError) as caught:
        call()
    return caught.value


def beside(values: MemoryValues) -> MemoryValues:
    """Another caller's view of the same storage."""
    return MemoryValues(values.storage)


# --- versions ---


def test_each_save_is_a_new_version_and_earlier_ones_stay() -> None:
    values = MemoryValues()

    assert save(values, "一").version.number == 1
    second = save(values, "一", "二", base=1, by="u-2")

    assert (second.version.number, second.version.rows, second.version.by) == (2, 2, "u-2")
    assert questions(values) == ["一", "二"]
    assert questions(values, 1) == ["一"]
    assert [one.changed_by for one in KeptTables(values).read(NAME).rows] == ["u-1", "u-2"]


def test_saving_just_the_same_makes_no_version() -> None:
    values = MemoryValues()
    save(values, "一")

    table, saved = KeptTables(values).save(NAME, lambda _: rows("一"), by="u-2")

    assert (saved, table.version.number) == (False, 1)


def test_an_earlier_version_can_be_brought_back_and_none_is_lost_by_it() -> None:
    values = MemoryValues()
    save(values, "一")
    save(values, "二")

    table, saved = KeptTables(values).restore(NAME, 1, by="u-3")

    assert (saved, table.version.number, table.version.action) == (True, 3, "restore")
    assert (questions(values), questions(values, 2)) == (["一"], ["二"])


def test_the_last_twenty_versions_are_kept_and_nothing_of_older_ones() -> None:
    values = MemoryValues()
    for number in range(1, KEPT_VERSIONS + 6):
        save(values, f"質問{number}")

    head = KeptTables(values).head(NAME)

    assert head is not None
    assert [version.number for version in head.versions] == list(range(KEPT_VERSIONS + 5, 5, -1))
    assert questions(values, 6) == ["質問6"]
    parts = [
        key for key in values.names() if key.startswith(kept.table_key(NAME)) and not key.endswith(("/head", "/lock"))
    ]
    assert len(parts) == KEPT_VERSIONS
    error = refused(lambda: KeptTables(values).read(NAME, 5))
    assert (error.reason, error.values["first"], error.values["last"]) == (Reason.TABLE_VERSION_NOT_FOUND, 6, 25)


def test_tables_are_listed_with_their_newest_version() -> None:
    values = MemoryValues()
    save(values, "一", name="休暇")
    save(values, "一", "二", name="経費")
    save(values, "三", name="経費")

    heads = {head.name: head.newest for head in KeptTables(values).heads()}

    assert {name: (version.number, version.rows) for name, version in heads.items()} == {"休暇": (1, 1), "経費": (2, 1)}


@pytest.mark.parametrize("name", ["FAQ 表", "ＦＡＱ 表", " faq　 表\n"])
def test_a_name_is_the_same_in_any_width_and_case(name: str) -> None:
    values = MemoryValues()
    save(values, "一", name="FAQ 表")

    assert KeptTables(values).read(name).head.name == "FAQ 表"
    save(values, "二", name=name)
    assert KeptTables(values).names() == ["FAQ 表"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a\\b", "\x00", "<script>", "名" * 100, "runs/x/head", "\ud83d"])
def test_any_name_can_be_kept(name: str) -> None:
    values = MemoryValues()
    save(values, "一", name=name)

    assert [one.row.question for one in KeptTables(values).read(name).rows] == ["一"]
    assert all(len(key.encode()) < 256 for key in values.names())


@pytest.mark.parametrize(
    ("name", "reason"), [("", "no_table_name"), (" \n", "no_table_name"), ("名" * 101, "input_too_long")]
)
def test_a_name_that_is_none_is_refused(name: str, reason: str) -> None:
    assert refused(lambda: save(MemoryValues(), "一", name=name)).reason == reason


def test_a_table_that_is_not_there_is_told_with_those_that_are() -> None:
    values = MemoryValues()
    save(values, "一", name="休暇")

    error = refused(lambda: KeptTables(values).read("旅費"))

    assert (error.reason, error.values["table"], error.values["known"]) == (Reason.TABLE_NOT_FOUND, "旅費", "休暇")
    assert refused(lambda: save(values, "一", base=3)).reason is Reason.TABLE_NOT_FOUND


# --- size ---


def test_two_thousand_rows_come_back_and_an_edit_of_one_writes_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    many = [
        KeptRow(Row(f"質問{n}", "答え" * 40), sources=(Source("規程.md", "答え", "章" * 800),)) for n in range(2000)
    ]
    table, _ = KeptTables(values).save(NAME, lambda _: many)
    assert [one.row for one in KeptTables(values).read(NAME).rows] == [one.row for one in many]

    written: list[str] = []
    monkeypatch.setattr(values, "before", lambda operation, key: operation == "set" and written.append(key))
    edited = [*table.rows[:777], replace(table.rows[777], state="off"), *table.rows[778:]]
    KeptTables(values).save(NAME, lambda _: edited, base=1)

    # A part and the head; the lock.
    assert len([key for key in written if not key.endswith("/lock")]) == 2
    assert KeptTables(values).read(NAME).rows[777].state == "off"
    assert KeptTables(values).read(NAME, 1).rows[777].state == "confirmed"


def test_long_rows_stay_below_what_a_line_can_carry() -> None:
    values = MemoryValues()
    # Digits of a hash are as good as random: they hardly shrink.
    text = "".join(f"{hash((n, 'x')):x}" for n in range(6000))
    KeptTables(values).save(NAME, lambda _: [KeptRow(Row(f"質問{n}", text)) for n in range(60)])

    assert len(KeptTables(values).read(NAME).rows) == 60
    assert all(len(value) < 900_000 for value in values.storage.snapshot().values())


def test_a_table_that_is_too_long_is_refused_and_nothing_kept() -> None:
    values = MemoryValues()

    error = refused(lambda: save(values, *map(str, range(kept.MAX_ROWS + 1))))

    assert (error.reason, values.names()) == (Reason.TABLE_TOO_LARGE, [])


# --- two at once ---


def test_a_save_on_an_old_version_is_refused_with_both_sides() -> None:
    values = MemoryValues()
    save(values, "一", "二")
    save(values, "一", "二", "彼女の", base=1)

    with pytest.raises(ConflictError) as caught:
        save(values, "一", "私の", base=1)

    conflict = caught.value
    assert conflict.values == {"table": NAME, "base": 1, "version": 2, "rows": 3}
    assert [one.row.question for one in conflict.mine] == ["一", "私の"]
    assert [one.row.question for one in conflict.theirs.rows] == ["一", "二", "彼女の"]
    assert questions(values) == ["一", "二", "彼女の"]


def test_a_new_table_of_a_name_that_somebody_else_took_meanwhile_is_refused() -> None:
    values = MemoryValues()
    save(values, "彼女の", base=0)

    assert refused(lambda: save(values, "私の", base=0)).reason is Reason.TABLE_CONFLICT


def moments(run: Callable[[MemoryValues], object], prepare: Callable[[MemoryValues], object]) -> int:
    """How many calls of the storage it takes."""
    values = MemoryValues()
    prepare(values)
    steps: list[str] = []
    values.before = lambda operation, _key: steps.append(operation)
    run(values)
    return len(steps)


def test_two_additions_at_once_lose_nothing_wherever_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "WAITING_SECONDS", 0.0)
    count = moments(lambda values: add(values, "私の"), lambda values: save(values, "一"))
    outcomes = set()
    for moment in range(1, count + 1):
        values = MemoryValues()
        save(values, "一")
        others: list[str] = []
        step = 0

        def before(_operation: str, _key: str, values: MemoryValues = values, moment: int = moment) -> None:
            nonlocal step
            step += 1
            if step == moment:
                others.append(attempt(lambda: add(beside(values), "彼女の")))  # noqa: B023 - called at once

        values.before = before
        mine = attempt(lambda: add(values, "私の"))  # noqa: B023 - called at once
        kept_now = set(questions(beside(values)))
        # Whoever was told that it is saved finds it there.
        assert ("私の" in kept_now) == (mine == "saved"), moment
        assert ("彼女の" in kept_now) == (others == ["saved"]), moment
        assert mine in {"saved", "table_busy"}
        assert others in (["saved"], ["table_busy"])
        outcomes.add((mine, others[0]))
    assert ("saved", "saved") in outcomes


def attempt(call: Callable[[], object]) -> str:
    try:
        call()
    except EvaluationError as error:
        return error.reason.value
    return "saved"


def test_a_save_waits_for_another_one_and_adds_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    save(values, "一")
    held = lock.Lock(beside(values), f"{kept.table_key(NAME)}/lock", Reason.TABLE_BUSY)
    held.take()

    def finish(_seconds: float) -> None:
        held.release()
        monkeypatch.setattr(lock.time, "sleep", lambda _seconds: None)
        add(beside(values), "彼女の")

    monkeypatch.setattr(lock.time, "sleep", finish)
    add(values, "私の")

    assert questions(values) == ["一", "彼女の", "私の"]


def test_who_was_taken_for_dead_does_not_write_over_what_came_after(monkeypatch: pytest.MonkeyPatch) -> None:
    values = MemoryValues()
    save(values, "一")
    later = time.time() + lock.LOCK_SECONDS + 1

    def stand_still(old: Sequence[KeptRow]) -> list[KeptRow]:
        with monkeypatch.context() as patch:
            patch.setattr(lock.time, "time", lambda: later)
            add(beside(values), "彼女の")
        # She has just finished, and a third one has begun.
        lock.Lock(beside(values), f"{kept.table_key(NAME)}/lock", Reason.TABLE_BUSY).take()
        return [*old, *rows("私の")]

    error = refused(lambda: KeptTables(values).save(NAME, stand_still))

    assert error.reason is Reason.TABLE_BUSY
    assert questions(values) == ["一", "彼女の"]


def test_a_head_that_another_call_wrote_over_is_a_conflict_and_not_a_success() -> None:
    values = MemoryValues()
    save(values, "一")
    save(values, "彼女の")
    theirs = values.get(f"{kept.table_key(NAME)}/head")
    KeptTables(values).restore(NAME, 1)
    key = f"{kept.table_key(NAME)}/head"
    writes = 0

    def before(operation: str, name: str) -> None:
        nonlocal writes
        writes += name == key and operation == "set"
        if writes == 1 and operation == "get" and name == key:
            # After ours was written, hers arrives late.
            values.storage.set(key, theirs)

    values.before = before
    error = refused(lambda: save(values, "私の"))

    assert isinstance(error, ConflictError)
    assert [one.row.question for one in error.mine] == ["私の"]


# --- a storage that refuses ---


def test_a_full_storage_leaves_the_table_as_it_was() -> None:
    values = MemoryValues()
    save(values, "一")
    values.storage.limit = sum(map(len, values.storage.snapshot().values()))
    many = [KeptRow(Row(f"質問{n}", f"{n * 7919}")) for n in range(2000)]

    error = refused(lambda: KeptTables(values).save(NAME, lambda _: many))

    assert error.reason is Reason.STORAGE_FULL
    values.storage.limit = 10**9
    assert questions(values) == ["一"]
    assert save(values, "二").version.number == 2


def test_a_head_that_is_refused_and_written_all_the_same_is_taken_back() -> None:
    values = MemoryValues()
    save(values, "一")
    key = f"{kept.table_key(NAME)}/head"

    def before(operation: str, name: str) -> None:
        # No room is left when the head's turn comes.
        values.storage.limit = 10 if (operation, name) == ("set", key) else 10**9

    values.before = before
    assert refused(lambda: save(values, "二")).reason is Reason.STORAGE_FULL

    assert questions(beside(values)) == ["一"]


@pytest.mark.parametrize("operation", ["set", "get", "delete"])
def test_a_call_that_is_killed_anywhere_leaves_a_whole_version(operation: str) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        values = MemoryValues()
        save(values, "一", "二")
        values.kill_at(number, operation)
        killed = False
        try:
            save(values, "三")
        except Killed:
            killed = True
        assert questions(values.after_restart()) in (["一", "二"], ["三"]), (operation, number)
        assert add(values.after_restart(), "後").version.number in {2, 3}
    assert number > 1


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"schema": 1, "name": "x", "versions": []}'])
def test_a_damaged_head_is_no_table_that_is_not_there(damage: bytes) -> None:
    values = MemoryValues()
    save(values, "一")
    values.set(f"{kept.table_key(NAME)}/head", damage)

    assert refused(lambda: questions(values)).reason is Reason.STORAGE_FAILED
    assert refused(lambda: save(values, "二")).reason is Reason.STORAGE_FAILED
    assert values.get(f"{kept.table_key(NAME)}/head") == damage


def test_one_damaged_table_does_not_hide_the_others() -> None:
    values = MemoryValues()
    save(values, "一")
    save(values, "一", name="別の表")
    values.set(f"{kept.table_key(NAME)}/head", b"{")

    assert [head.name for head in KeptTables(values).heads()] == ["別の表"]
    assert set(KeptTables(values).names()) == {NAME, "別の表"}


def test_a_part_that_is_gone_is_told_and_other_versions_can_be_brought_back() -> None:
    values = MemoryValues()
    save(values, "一")
    part = save(values, "二").version.parts[0]
    values.delete(f"{kept.table_key(NAME)}/{part}")

    assert refused(lambda: questions(values)).reason is Reason.STORAGE_FAILED
    assert questions(values, 1) == ["一"]


def test_what_a_later_plugin_kept_is_refused_in_words_and_left_alone() -> None:
    values = MemoryValues()
    save(values, "一")
    key = f"{kept.table_key(NAME)}/head"
    newer = json.dumps({**json.loads(values.get(key)), "schema": 2}).encode()
    values.set(key, newer)

    assert refused(lambda: questions(values)).reason is Reason.KEPT_BY_NEWER
    assert refused(lambda: save(values, "二")).reason is Reason.KEPT_BY_NEWER
    assert values.get(key) == newer
