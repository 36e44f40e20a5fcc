from bridge import app


class EvaluateApp(app.AppTool):
    """A whole question list against any Dify app."""
