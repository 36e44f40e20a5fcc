from collections.abc import Mapping
from typing import Any

from bridge import edge, selection
from evaluation.errors import EvaluationError, Reason
from evaluation.report.escape import escape
from evaluation.result import status_of
from evaluation.texts import Texts


class JudgeSettings(edge.EvaluatorTool):
    def run(self, parameters: Mapping[str, Any], texts: Texts) -> edge.Output:
        chosen = selection.Selection(
            *(selection.read_selector(parameters.get(name)) for name in selection.MODEL_FIELDS)
        )
        if chosen.model is None:
            raise EvaluationError(Reason.MODEL_NOT_SELECTED, field="model")
        workspace = edge.is_true(parameters.get("workspace_default"))
        written = selection.save(self.session.storage, self.session.app_id, chosen, workspace=workspace)
        name = "unchanged" if not written else "saved_workspace" if workspace else "saved_app"
        line = texts.get(f"settings.{name}", model=escape(str(chosen.model["model"])))
        if chosen.embedding_model:
            embedding = texts.get("settings.embedding", model=escape(str(chosen.embedding_model["model"])))
        else:
            embedding = texts.get("settings.no_embedding")
        line = texts.aside(line, embedding)
        return _output(chosen, line, None, {"changed": written, "workspace_default": workspace})

    def failed(self, error: EvaluationError, texts: Texts) -> edge.Output:
        return _output(selection.Selection(), texts.reason(error.reason, error.values), error, {"changed": False})


def _output(
    chosen: selection.Selection, line: str, error: EvaluationError | None, details: Mapping[str, Any]
) -> edge.Output:
    model, embedding_model = chosen.model, chosen.embedding_model
    return edge.Output(
        line,
        {
            "saved": error is None,
            "model_name": str(model["model"]) if model else "",
            "embedding_model_name": str(embedding_model["model"]) if embedding_model else "",
            "status": status_of(error),
            "reason": error.reason.value if error else "",
            "summary": line,
            "details": {"model": model, "embedding_model": embedding_model, **details},
        },
    )
