"""The tool that chooses the models once, for an app or the workspace."""

from collections.abc import Mapping
from typing import Any

from bridge.dify.selection import MODEL_FIELDS, Selection, read_selector, save
from bridge.edge import EvaluatorTool, Output, is_true
from evaluation.errors import EvaluationError, Reason
from evaluation.languages import LANGUAGES
from evaluation.report.escape import escape, unescape
from evaluation.result import status_of
from evaluation.texts import Texts


class SettingsTool(EvaluatorTool):
    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        model, embedding_model = (read_selector(parameters.get(name)) for name in MODEL_FIELDS)
        language = parameters.get("language")
        chosen = Selection(model, embedding_model, language if language in LANGUAGES else None)
        if chosen.model is None:
            raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="model")
        workspace = is_true(parameters.get("workspace_default"))
        written = save(self.storage, self.session.app_id, chosen, workspace=workspace)
        name = "unchanged" if not written else "saved_workspace" if workspace else "saved_app"
        line = texts.get(f"settings.{name}", model=escape(str(chosen.model["model"])))
        if chosen.embedding_model:
            embedding = texts.get("settings.embedding", model=escape(str(chosen.embedding_model["model"])))
        else:
            embedding = texts.get("settings.no_embedding")
        line = texts.aside(line, embedding)
        return _output(chosen, line, None, {"changed": written, "workspace_default": workspace})

    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        return _output(Selection(), texts.reason(error.reason, error.values), error, {"changed": False})


def _output(chosen: Selection, line: str, error: EvaluationError | None, details: Mapping[str, Any]) -> Output:
    model, embedding_model = chosen.model, chosen.embedding_model
    return Output(
        line,
        {
            "saved": error is None,
            "model_name": str(model["model"]) if model else "",
            "embedding_model_name": str(embedding_model["model"]) if embedding_model else "",
            "status": status_of(error),
            "reason": error.reason.value if error else "",
            "summary": unescape(line),
            "details": {"model": model, "embedding_model": embedding_model, "language": chosen.language, **details},
        },
    )
