from bridge import metric_tool


class AnswerRelevancy(metric_tool.MetricTool):
    metric = "answer_relevancy"
