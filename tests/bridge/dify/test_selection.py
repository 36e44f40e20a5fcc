"""Which models judge, and where they are kept."""

import json
from typing import Any

import pytest

from bridge.dify.selection import Selection, app_key, chosen_language, load, read_selector, save, select_models
from evaluation.errors import EvaluationError, Reason

NODE = {"provider": "p", "model": "node", "mode": "chat"}
APP = {"provider": "p", "model": "app", "mode": "chat"}
WORKSPACE = {"provider": "p", "model": "workspace", "mode": "chat"}
PAGES_KEY, WORKSPACE_KEY = "pages", "judge_settings/workspace"


class Store:
    """Storage as Dify's: a missing key raises a bare exception. Counts its calls."""

    def __init__(self, **values: Any) -> None:
        self.values = {key: json.dumps(value).encode() for key, value in values.items()}
        self.gets: list[str] = []
        self.sets: list[str] = []
        self.broken = False

    def get(self, key: str) -> bytes:
        self.gets.append(key)
        if self.broken or key not in self.values:
            raise Exception("load data failed, please check if the key is correct or you have not set it")  # noqa: TRY002
        return self.values[key]

    def set(self, key: str, val: bytes) -> None:
        self.sets.append(key)
        if self.broken:
            raise Exception("save data failed: allocated size is greater than max storage size")  # noqa: TRY002
        self.values[key] = val


def store(app: Any = None, workspace: Any = None) -> Store:
    kept = {app_key("a1"): app, WORKSPACE_KEY: workspace}
    return Store(**{key: value for key, value in kept.items() if value is not None})


def names(selection: Selection) -> tuple[str | None, str | None]:
    models = (selection.model, selection.embedding_model)
    return tuple(model["model"] if model else None for model in models)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "value", [None, "", "x", {}, [], 5, "{}", "[]", {"provider": "p"}, {"model": "m"}, {"provider": "", "model": "m"}]
)
def test_no_model_is_chosen_in(value: object) -> None:
    assert read_selector(value) is None


@pytest.mark.parametrize("mode", [None, "", "chat"])
def test_selector_is_read_as_object_and_as_text(mode: Any) -> None:
    value = {"provider": "p", "model": "m", "mode": mode, "completion_params": {"top_p": 1}, "extra": 1}
    assert read_selector(value) == {**value, "mode": "chat"}
    assert read_selector(json.dumps(value)) == {**value, "mode": "chat"}
    assert read_selector({"provider": "p", "model": "m", "mode": "completion"})["mode"] == "completion"  # type: ignore[index]
    assert value["mode"] == mode


@pytest.mark.parametrize(
    ("parameters", "app", "workspace", "chosen"),
    [
        ({"model": NODE}, {"model": APP}, {"model": WORKSPACE}, ("node", None)),
        ({}, {"model": APP}, {"model": WORKSPACE}, ("app", None)),
        ({"model": None}, None, {"model": WORKSPACE}, ("workspace", None)),
        ({}, None, None, (None, None)),
        ({}, {"model": APP, "embedding_model": APP}, {"model": WORKSPACE}, ("app", "app")),
        ({"model": NODE}, {"embedding_model": APP}, None, ("node", "app")),
        ({"embedding_model": NODE}, {"model": APP, "embedding_model": APP}, None, ("app", "node")),
        ({}, {"model": APP}, {"model": WORKSPACE, "embedding_model": WORKSPACE}, ("app", "workspace")),
        ({"model": {}}, {"model": {}}, {"model": WORKSPACE}, ("workspace", None)),
    ],
)
def test_node_comes_before_app_and_app_before_workspace(
    parameters: Any, app: Any, workspace: Any, chosen: tuple[str | None, str | None]
) -> None:
    assert names(select_models(parameters, store(app, workspace), "a1")) == chosen


def test_setting_of_another_app_does_not_count() -> None:
    kept = store({"model": APP})
    assert names(select_models({}, kept, "a2")) == (None, None)
    assert names(select_models({}, kept, None)) == (None, None)
    assert kept.gets == [app_key("a2"), PAGES_KEY, WORKSPACE_KEY, PAGES_KEY, WORKSPACE_KEY]


def test_storage_is_read_only_as_far_as_needed() -> None:
    kept = store({"model": APP, "embedding_model": APP})
    select_models({"model": NODE, "embedding_model": NODE}, kept, "a1")
    assert kept.gets == []
    select_models({}, kept, "a1")
    assert kept.gets == [app_key("a1")]


@pytest.mark.parametrize("value", [b"", b"{", b"[]", b"5", b"\xff", b"null"])
def test_unreadable_setting_is_none(value: bytes) -> None:
    kept = store()
    kept.values[app_key("a1")] = value
    assert load(kept, app_key("a1")) == {}
    assert names(select_models({}, kept, "a1")) == (None, None)


def test_storage_that_fails_leaves_the_nodes_own_models() -> None:
    kept = store({"model": APP, "embedding_model": APP})
    kept.broken = True
    assert names(select_models({"model": NODE}, kept, "a1")) == ("node", None)


def test_models_are_saved_once_for_the_app() -> None:
    kept = store()
    selection = Selection(NODE, APP)
    assert save(kept, "a1", selection, workspace=False)
    assert not save(kept, "a1", selection, workspace=False)
    assert kept.sets == [app_key("a1")]
    assert select_models({}, kept, "a1") == selection


def test_models_are_saved_again_when_something_changed() -> None:
    kept = store()
    for selection in (
        Selection(NODE),
        Selection({**NODE, "completion_params": {"temperature": 1}}),
        Selection(NODE, APP),
        Selection(NODE),
    ):
        assert save(kept, "a1", selection, workspace=False)
        assert not save(kept, "a1", selection, workspace=False)
    assert len(kept.sets) == 4
    assert names(select_models({}, kept, "a1")) == ("node", None)


def test_workspaces_default_is_saved_when_asked_and_only_where_it_differs() -> None:
    kept = store()
    assert save(kept, "a1", Selection(NODE), workspace=False)
    assert save(kept, "a1", Selection(NODE), workspace=True)
    assert kept.sets == [app_key("a1"), WORKSPACE_KEY]
    assert names(select_models({}, kept, "a2")) == ("node", None)
    assert save(kept, None, Selection(APP), workspace=True)
    assert names(select_models({}, kept, "a2")) == ("app", None)


def test_without_an_app_there_is_nothing_to_save_for() -> None:
    with pytest.raises(EvaluationError) as caught:
        save(store(), None, Selection(NODE), workspace=False)
    assert caught.value.reason is Reason.NO_APP


def test_full_storage_is_told() -> None:
    kept = store()
    kept.broken = True
    with pytest.raises(EvaluationError) as caught:
        save(kept, "a1", Selection(NODE), workspace=False)
    assert caught.value.reason is Reason.STORAGE_FAILED


# --- the language ---


def test_the_language_is_kept_with_the_models_and_the_apps_own_goes_before_the_workspaces() -> None:
    kept = store()
    assert chosen_language(kept, "a1") is None
    save(kept, "other", Selection(NODE, language="en"), workspace=True)
    assert chosen_language(kept, "a1") == "en"
    save(kept, "a1", Selection(NODE, language="ja"), workspace=False)
    assert (chosen_language(kept, "a1"), chosen_language(kept, None)) == ("ja", "en")
    assert names(select_models({}, kept, "a1")) == ("node", None)


def test_another_language_is_a_change_and_none_takes_it_back() -> None:
    kept = store()
    assert save(kept, "a1", Selection(NODE, language="ja"), workspace=False)
    assert not save(kept, "a1", Selection(NODE, language="ja"), workspace=False)
    assert save(kept, "a1", Selection(NODE), workspace=False)
    assert chosen_language(kept, "a1") is None


@pytest.mark.parametrize("language", ["de", "", None, 5, ["ja"]])
def test_a_language_that_there_is_not_is_none(language: object) -> None:
    kept = store(app={"model": APP, "language": language}, workspace={"model": WORKSPACE, "language": "zh"})
    assert chosen_language(kept, "a1") == "zh"
    kept.broken = True
    assert chosen_language(kept, "a1") is None
