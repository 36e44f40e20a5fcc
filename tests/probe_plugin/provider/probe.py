from dify_plugin import ToolProvider


class ProbeProvider(ToolProvider):
    def _validate_credentials(self, credentials: dict) -> None:
        """Accept everything: there are no credentials."""
