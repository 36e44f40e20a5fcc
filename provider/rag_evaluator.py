from typing import Any

from dify_plugin import ToolProvider


class RagEvaluatorProvider(ToolProvider):
    def _validate_credentials(self, credentials: dict[str, Any]) -> None:
        """There are none: the workspace's own models judge."""
