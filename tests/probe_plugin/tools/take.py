import time
from collections.abc import Generator
from typing import Any

from dify_plugin import Tool
from dify_plugin.entities.model.message import SystemPromptMessage, UserPromptMessage
from dify_plugin.entities.model.text_embedding import TextEmbeddingModelConfig
from dify_plugin.entities.tool import ToolInvokeMessage


class TakeTool(Tool):
    """Does once what a tool can do: reports its parameters, calls both kinds of model, emits, stores."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        question = tool_parameters["question"]
        report: dict[str, Any] = {
            "seen": {name: [type(value).__name__, repr(value)[:600]] for name, value in tool_parameters.items()},
            "app_id": self.session.app_id,
            "conversation_id": self.session.conversation_id,
            "message_id": self.session.message_id,
        }
        try:
            report["llm"] = self._ask(tool_parameters["model"], question)
        except Exception as error:  # noqa: BLE001 - reported as data
            report["llm_error"] = [type(error).__name__, str(error)]
        try:
            report["emb"] = self._embed(tool_parameters["embedding_model"])
        except Exception as error:  # noqa: BLE001 - reported as data
            report["emb_error"] = [type(error).__name__, str(error)]
        yield self.create_text_message("**take** 0.5")
        yield self.create_json_message(report)
        yield self.create_variable_message("score", 0.5)
        yield self.create_variable_message("score_text", "0.50")
        yield self.create_variable_message("passed", True)
        yield self.create_variable_message("details", report)
        if "file" in question:
            yield self.create_blob_message(
                "a,b\n1,日本\n".encode(), meta={"mime_type": "text/csv", "filename": "rows.csv"}
            )
            yield self.create_blob_message(
                "<html><body>日本</body></html>".encode(), meta={"mime_type": "text/html", "filename": "report.html"}
            )
        self.session.storage.set("last", f"{question} 日本".encode())
        if "raise" in question:
            raise RuntimeError("planted-secret-123")

    def _ask(self, model: dict[str, Any], question: str) -> dict[str, Any]:
        started = time.time()
        result = self.session.model.llm.invoke(
            model_config=model,
            prompt_messages=[
                SystemPromptMessage(content="Reply in JSON."),
                UserPromptMessage(content=f"question: {question}"),
            ],
            stream=False,
        )
        usage = result.usage.model_dump(mode="json")
        return {"content": result.message.content, "usage": usage, "s": time.time() - started}

    def _embed(self, model: dict[str, Any]) -> dict[str, Any]:
        result = self.session.model.text_embedding.invoke(
            model_config=TextEmbeddingModelConfig(provider=model["provider"], model=model["model"]),
            texts=["あ", "b"],
        )
        usage = result.usage.model_dump(mode="json")
        return {"dims": [len(vector) for vector in result.embeddings], "usage": usage}
