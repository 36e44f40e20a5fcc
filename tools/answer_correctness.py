from bridge import metric_tool


class AnswerCorrectness(metric_tool.MetricTool):
    metric = "answer_correctness"
