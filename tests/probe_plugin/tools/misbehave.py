import os
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dify_plugin import Tool
from dify_plugin.entities.model.message import UserPromptMessage
from dify_plugin.entities.tool import ToolInvokeMessage

MODEL = {"provider": "test/test/test", "model": "m", "model_type": "llm", "mode": "chat", "completion_params": {}}


class MisbehaveTool(Tool):
    """One action a call: what hosts must survive, and calls in numbers."""

    def _invoke(self, tool_parameters: dict[str, Any]) -> Generator[ToolInvokeMessage, None, None]:
        action = tool_parameters["action"]
        match action["do"] if isinstance(action, dict) else action:
            case "die":
                os._exit(3)
            case "sleep":
                time.sleep(60)
            case "print":
                print("a stray line")
            case "long_line":
                yield self.create_text_message("x" * action["bytes"])
            case "write_stderr":
                sys.stderr.write("noise on stderr\n" * action["lines"])
                sys.stderr.flush()
            case "ask":
                yield self.create_json_message({"replies": self._ask(action["times"], action.get("params", {}))})
            case "storage":
                yield self.create_json_message({"results": [self._store(*step) for step in action["steps"]]})
            case "emit":
                yield self.create_variable_message("value", action["value"])
            case "emit_nan":
                yield self.create_variable_message("value", float("nan"))
            case "blob":
                yield self.create_blob_message(bytes.fromhex(action["hex"]) * action["times"], meta={"filename": "b"})

    def _ask(self, times: int, params: dict[str, Any]) -> list[str]:
        model = MODEL | {"completion_params": params}

        def one(number: int) -> str:
            result = self.session.model.llm.invoke(
                model_config=model, prompt_messages=[UserPromptMessage(content=f"call {number}")], stream=False
            )
            return str(result.message.content)

        with ThreadPoolExecutor(times) as pool:
            return list(pool.map(one, range(times)))

    def _store(self, operation: str, key: str, value: str = "", times: int = 1) -> Any:
        storage = self.session.storage
        try:
            match operation:
                case "set":
                    storage.set(key, value.encode() * times)
                case "get":
                    return storage.get(key).decode()
                case "delete":
                    storage.delete(key)
                case "exist":
                    return storage.exist(key)
        except Exception as error:  # noqa: BLE001 - reported as data
            return f"{type(error).__name__}: {error}"
        return "done"
