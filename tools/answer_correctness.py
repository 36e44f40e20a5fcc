from bridge import metric


class AnswerCorrectness(metric.MetricTool):
    metric = "answer_correctness"
