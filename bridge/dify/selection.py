"""Which models judge: the node's own, else those saved for the app, else the workspace's default."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from evaluation.errors import EvaluationError, Reason
from evaluation.languages import LANGUAGES, Language

MODEL_FIELDS = ("model", "embedding_model")
_WORKSPACE_KEY = "judge_settings/workspace"
# Where the settings of the pages' endpoint are noted: models chosen there are the workspace's too.
PAGES_KEY = "pages"


class Storage(Protocol):
    """What is used of a dify_plugin session's `storage`. A missing key raises."""

    def get(self, key: str) -> bytes: ...
    def set(self, key: str, val: bytes) -> None: ...


@dataclass(frozen=True)
class Selection:
    """The selectors that count, None where nothing was chosen anywhere, and the language of what has no text."""

    model: Mapping[str, Any] | None = None
    embedding_model: Mapping[str, Any] | None = None
    language: Language | None = None


def read_selector(value: object) -> dict[str, Any] | None:
    """A model selector's value, None when no model is chosen in it (absent, {}, "", an empty name)."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, Mapping) or not value.get("provider") or not value.get("model"):
        return None
    selector = dict(value)
    selector["mode"] = value.get("mode") or "chat"
    return selector


def select_models(parameters: Mapping[str, Any], storage: Storage, app_id: str | None) -> Selection:
    """The models for a tool call. Storage is read only when the node leaves one of the two open."""
    chosen = {name: read_selector(parameters.get(name)) for name in MODEL_FIELDS}
    for key in _keys(app_id):
        if all(chosen.values()):
            break
        saved = load(storage, key)
        chosen = {name: selector or read_selector(saved.get(name)) for name, selector in chosen.items()}
    return Selection(chosen["model"], chosen["embedding_model"])


def chosen_language(storage: Storage, app_id: str | None) -> Language | None:
    """The language that was chosen with the models for the app, else for the workspace; None without any."""
    saved = (load(storage, key).get("language") for key in _keys(app_id))
    return next((language for language in saved if language in LANGUAGES), None)


def _keys(app_id: str | None) -> list[str]:
    return [*([app_key(app_id)] if app_id else []), PAGES_KEY, _WORKSPACE_KEY]


def app_key(app_id: str) -> str:
    """The storage key of an app's models."""
    return f"judge_settings/app/{app_id}"


def load(storage: Storage, key: str) -> dict[str, Any]:
    """What is saved under the key; {} when nothing is, or it can't be read.

    Raises:
        EvaluationError: dify_busy.
    """
    try:
        value = json.loads(storage.get(key))
    except EvaluationError:
        raise
    except Exception:  # noqa: BLE001 - Dify tells a missing key by a bare exception
        return {}
    return value if isinstance(value, dict) else {}


def save(storage: Storage, app_id: str | None, selection: Selection, *, workspace: bool) -> bool:
    """Saves the models and the language for the app and, when asked, as the workspace's default.

    Returns:
        Whether anything was written: what is saved already is left alone.

    Raises:
        EvaluationError: no_app when there is nothing to save them for; storage_failed.
    """
    keys = [*([app_key(app_id)] if app_id else []), *([_WORKSPACE_KEY] if workspace else [])]
    if not keys:
        raise EvaluationError(Reason.NO_APP)
    value = {name: chosen for name in (*MODEL_FIELDS, "language") if (chosen := getattr(selection, name))}
    written = False
    for key in keys:
        if load(storage, key) != value:
            try:
                storage.set(key, json.dumps(value, ensure_ascii=False, sort_keys=True).encode())
            except EvaluationError:
                raise
            except Exception as error:
                raise EvaluationError(Reason.STORAGE_FAILED) from error
            written = True
    return written
