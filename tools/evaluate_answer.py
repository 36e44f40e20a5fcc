from bridge import scorecard


class EvaluateAnswer(scorecard.ScorecardTool):
    """All metrics of one answer in one node."""
