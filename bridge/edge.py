"""The edge to Dify: every tool's call ends here, and nothing that happens in it may break the chat.

A tool that raises fails its node and with it the reply that is being judged; a tool that exits kills the plugin for
everyone. So a call always gives its text, its JSON and each of its declared variables.
"""

import logging
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dify_plugin import Tool
from dify_plugin.config.logger_format import plugin_logger_handler
from dify_plugin.entities.tool import ToolInvokeMessage

from bridge.dify.messages import sendable
from bridge.dify.places import SharedStorage
from bridge.dify.selection import chosen_language
from evaluation.errors import EvaluationError, Reason, whereabouts
from evaluation.languages import LANGUAGES, Language, choose_language, language_of_texts
from evaluation.sample import is_variable_name
from evaluation.texts import Texts, load_texts

logger = logging.getLogger("rag_evaluator")
logger.addHandler(plugin_logger_handler)
logging.getLogger("evaluation").addHandler(plugin_logger_handler)

# What tells the language, in this order.
_LANGUAGE_SOURCES = ("question", "answer", "reference", "contexts", "golden", "table_name")


@dataclass(frozen=True)
class OutputFile:
    """A file for the user to download."""

    name: str
    mime_type: str
    data: bytes


@dataclass(frozen=True)
class Output:
    """What a tool gives: the text for the chat, each variable that its YAML declares, and files.

    Attributes:
        afterwards: called when the last of it has been written, as far as a plugin gets to know.
    """

    text: str
    variables: Mapping[str, Any]
    files: Sequence[OutputFile] = ()
    afterwards: Callable[[], None] = field(default=lambda: None)


class EvaluatorTool(Tool):
    """A tool that always answers. Subclasses implement `run` and `failed`."""

    @property
    def storage(self) -> SharedStorage:
        """The plugin's storage."""
        return SharedStorage(self.session.storage)

    def usual_language(self) -> Language | None:
        """The one chosen in judge_settings, for what has neither a setting nor a text to go by."""
        try:
            return chosen_language(self.storage, self.session.app_id)
        except Exception:  # noqa: BLE001 - what only chooses words must not cost a result
            return None

    @abstractmethod
    def run(self, parameters: Mapping[str, Any], texts: Texts) -> Output:
        """The tool's output.

        Raises:
            EvaluationError: what the user can be told; `failed` words it.
        """

    @abstractmethod
    def failed(self, error: EvaluationError, texts: Texts) -> Output:
        """The output when there is nothing but an error."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        output = self._safely(tool_parameters)
        yield self.create_text_message(output.text)
        yield self.create_json_message(dict(output.variables))
        for name, value in output.variables.items():
            yield self.create_variable_message(name, value)
        for file in output.files:
            yield self.create_blob_message(file.data, {"mime_type": file.mime_type, "filename": file.name})
        try:
            output.afterwards()
        except BaseException:
            logger.exception("%s failed after its output: %s", type(self).__name__, whereabouts())

    def _safely(self, parameters: Mapping[str, Any]) -> Output:
        texts = load_texts(choose_language(parameters.get("language")))
        try:
            texts = load_texts(language_of(parameters, self.usual_language))
            try:
                output = self.run(parameters, texts)
            except EvaluationError as error:
                output = self.failed(error, texts)
            return replace(output, text=sendable(output.text), variables=sendable(output.variables))
        except BaseException:
            logger.exception("%s failed unexpectedly: %s", type(self).__name__, whereabouts())
            return self.failed(EvaluationError(Reason.INTERNAL_ERROR), texts)


def language_of(parameters: Mapping[str, Any], usual: Callable[[], Language | None] = lambda: None) -> Language:
    """The language of the setting, else that of the inputs, else the usual one, else English."""
    setting = parameters.get("language")
    of_inputs = language_of_texts(*(" ".join(_texts(parameters.get(name), name)) for name in _LANGUAGE_SOURCES))
    return choose_language(setting) if setting in LANGUAGES else of_inputs or usual() or "en"


def _texts(value: object, field: str) -> Iterator[str]:
    """The texts in an input of any shape. What is no text, or only a variable's name, has no language."""
    if isinstance(value, str):
        if not is_variable_name(value, field):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item, field)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, field)


def is_true(value: object) -> bool:
    """A boolean parameter: a bool, or the word that a form or a variable gave."""
    return value is True or str(value).strip().casefold() in {"true", "1", "yes"}
