"""The workspace's models, called through Dify's reverse invocation."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dify_plugin.entities.model.message import PromptMessage, SystemPromptMessage, UserPromptMessage
from dify_plugin.entities.model.text_embedding import TextEmbeddingModelConfig

from bridge.dify.failures import failure, refused_parameter
from bridge.dify.messages import sendable
from bridge.dify.places import watched
from evaluation.errors import JudgeError, Reason
from evaluation.judging.models import Charge, ModelIdentity

# Unless the user chose others: the same answer shall get the same score.
DEFAULT_PARAMETERS = {"temperature": 0}


class ModelCalls(Protocol):
    """What is used of a dify_plugin session's `model`."""

    llm: Any
    text_embedding: Any


class DifyJudge:
    """A chat model of the workspace, as a node's model selector names it.

    Args:
        calls: the session's `model`.
        selector: {"provider", "model", "mode", "completion_params"}; it is not changed.
    """

    def __init__(self, calls: ModelCalls, selector: Mapping[str, Any]) -> None:
        self.name = str(selector["model"])
        self._calls = calls
        self._selector = dict(selector)
        self._chosen = {**DEFAULT_PARAMETERS, **(selector.get("completion_params") or {})}
        self.identity = ModelIdentity(str(selector["provider"]), self.name, self._chosen)
        self._refused: set[str] = set()
        self._lock = threading.Lock()

    def complete(self, system: str, user: str) -> tuple[str, Charge]:
        """The model's reply. Temperature is 0 unless the user set one; a parameter that the model refuses is left out.

        Raises:
            JudgeError: what went wrong.
        """
        messages = [SystemPromptMessage(content=system), UserPromptMessage(content=sendable(user))]
        with watched():
            return self._complete(messages)

    def _complete(self, messages: Sequence[PromptMessage]) -> tuple[str, Charge]:
        while True:
            parameters, stop = self._parameters()
            try:
                result = self._calls.llm.invoke(
                    model_config={**self._selector, "completion_params": parameters},
                    prompt_messages=list(messages),
                    stop=stop,
                    stream=False,
                )
            except Exception as error:
                name = refused_parameter(str(error))
                if name not in {*parameters, *(("stop",) if stop else ())}:
                    raise failure(str(error)) from error
                with self._lock:
                    self._refused.add(name)
            else:
                return _text(result.message.content), _charge(result.usage)

    def _parameters(self) -> tuple[dict[str, Any], list[str] | None]:
        """The model's parameters less those that it refused; and the stop words, which travel apart."""
        with self._lock:
            parameters = {name: value for name, value in self._chosen.items() if name not in self._refused}
        stop = parameters.pop("stop", None)
        return parameters, list(stop) if isinstance(stop, (list, tuple)) and stop else None


class DifyEmbedder:
    """An embedding model of the workspace."""

    def __init__(self, calls: ModelCalls, selector: Mapping[str, Any]) -> None:
        self.name = str(selector["model"])
        self.identity = ModelIdentity(str(selector["provider"]), self.name)
        self._calls = calls
        self._config = TextEmbeddingModelConfig(provider=selector["provider"], model=selector["model"])

    def embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Charge]:
        """One vector per text.

        Raises:
            JudgeError: what went wrong.
        """
        with watched():
            return self._embed(texts)

    def _embed(self, texts: Sequence[str]) -> tuple[list[list[float]], Charge]:
        try:
            result = self._calls.text_embedding.invoke(model_config=self._config, texts=sendable(list(texts)))
        except Exception as error:
            reason = failure(str(error))
            raise (
                JudgeError(Reason.EMBEDDING_INVALID) if reason.reason is Reason.JUDGE_UNPARSEABLE else reason
            ) from error
        usage = result.usage
        return result.embeddings, Charge(usage.total_tokens, 0, float(usage.total_price), usage.currency)


class NoModel:
    """Stands for a judge where none was selected: results that need no call are still given."""

    name = ""
    identity = ModelIdentity()

    def complete(self, system: str, user: str) -> tuple[str, Charge]:  # noqa: ARG002 - the protocol's arguments
        """Always raises."""
        raise JudgeError(Reason.MODEL_NOT_SELECTED, field="model")


def _text(content: object) -> str:
    """A reply's text; some models give it in pieces, and a content filter gives none."""
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, list) else []
    return "".join(getattr(piece, "data", "") for piece in pieces)


def _charge(usage: Any) -> Charge:
    if usage is None:
        return Charge()
    return Charge(usage.prompt_tokens, usage.completion_tokens, float(usage.total_price), usage.currency)
