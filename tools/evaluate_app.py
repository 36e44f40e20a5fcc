from bridge import app_tool


class EvaluateApp(app_tool.AppTool):
    """A whole question list against any Dify app."""
