from bridge import scorecard_tool


class EvaluateAnswer(scorecard_tool.ScorecardTool):
    """All metrics of one answer in one node."""
