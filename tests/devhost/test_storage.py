"""The plugin's storage, as a running Dify was seen to keep it."""

from typing import Any

import pytest

from devhost.daemon import PluginProcess, collect
from devhost.dify_side import DifySide, ModelServer, ReverseCall, ReverseCallError, Storage

NOT_SET = "load data failed, please check if the key is correct or you have not set it"
TOO_LARGE = "save data failed: allocated size is greater than max storage size"


def steps(probe: PluginProcess, *wanted: list[Any]) -> list[Any]:
    action = {"do": "storage", "steps": list(wanted)}
    output = collect(probe.invoke_tool("misbehave", {"action": action}, provider="probe", timeout=20))
    results: list[Any] = output.json[0]["results"]
    return results


def test_a_tool_reads_what_it_wrote(probe: PluginProcess, storage: Storage) -> None:
    assert steps(probe, ["set", "a/b", "値"], ["get", "a/b"], ["exist", "a/b"], ["exist", "c"]) == [
        "done",
        "値",
        True,
        False,
    ]
    assert storage.snapshot() == {"a/b": "値".encode()}


def test_missing_keys_are_errors_in_the_daemons_words(probe: PluginProcess) -> None:
    got, deleted = steps(probe, ["get", "never"], ["delete", "never"])
    assert got == f"Exception: {NOT_SET}"
    assert deleted.startswith("Exception: delete data failed: ")
    assert "/never" in deleted


def test_a_deleted_key_is_gone(probe: PluginProcess) -> None:
    assert steps(probe, ["set", "k", "v"], ["get", "k"], ["delete", "k"], ["exist", "k"], ["get", "k"]) == [
        "done",
        "v",
        "done",
        False,
        f"Exception: {NOT_SET}",
    ]


def test_the_size_declared_in_the_manifest_counts_over_all_keys(probe: PluginProcess) -> None:
    # the probe declares 1 MiB = 1,048,576 bytes: 600,000 fit, 600,000 more do not
    assert steps(probe, ["set", "one", "x", 600_000], ["set", "two", "y", 600_000], ["exist", "two"]) == [
        "done",
        f"Exception: {TOO_LARGE}",
        True,
    ]


def test_a_value_refused_for_its_size_is_written_all_the_same() -> None:
    storage = Storage(limit=10)
    with pytest.raises(ReverseCallError, match=TOO_LARGE):
        storage.set("k", b"x" * 11)
    assert storage.get("k") == b"x" * 11


def test_a_refused_overwrite_leaves_the_old_value_in_the_cache() -> None:
    storage = Storage(limit=10)
    storage.set("k", b"old")
    assert storage.get("k") == b"old"
    with pytest.raises(ReverseCallError, match=TOO_LARGE):
        storage.set("k", b"x" * 11)
    assert storage.get("k") == b"old"
    assert storage.snapshot() == {"k": b"x" * 11}


def test_an_accepted_overwrite_is_read_at_once() -> None:
    storage = Storage()
    storage.set("k", b"old")
    assert storage.get("k") == b"old"
    storage.set("k", b"new")
    assert storage.get("k") == b"new"


def test_an_overwrite_counts_only_its_growth() -> None:
    storage = Storage(limit=10)
    storage.set("k", b"x" * 8)
    storage.set("k", b"y" * 10)
    storage.delete("k")
    storage.set("other", b"z" * 10)
    assert storage.snapshot() == {"other": b"z" * 10}


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("", "open .*: is a directory"),
        ("..", "invalid key: path traversal attempt detected"),
        ("a/../../b", "invalid key: path traversal attempt detected"),
        ("a\\b", "invalid key: path traversal attempt detected"),
        ("k" * 256, "key length must be less than 256 characters"),
        ("鍵" * 86, "key length must be less than 256 characters"),  # 86 x 3 = 258 bytes
    ],
)
def test_bad_keys_are_refused(key: str, refusal: str) -> None:
    storage = Storage()
    with pytest.raises(ReverseCallError, match=f"save data failed: {refusal}"):
        storage.set(key, b"v")
    with pytest.raises(ReverseCallError, match=NOT_SET):
        storage.get(key)
    assert storage.snapshot() == {}


def test_the_longest_key_is_accepted() -> None:
    storage = Storage()
    storage.set("鍵" * 85, b"v")  # 85 x 3 = 255 bytes
    assert storage.exists("鍵" * 85)


def test_a_value_that_is_no_hex_is_refused() -> None:
    side = DifySide(ModelServer("http://127.0.0.1:9"))
    call = ReverseCall("storage", {"opt": "set", "key": "k", "value": "zz"}, {"storage": {"enabled": True}})
    with pytest.raises(ReverseCallError, match="decode data failed"):
        list(side.answer(call))
