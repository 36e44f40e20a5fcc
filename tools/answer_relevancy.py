from bridge import metric


class AnswerRelevancy(metric.MetricTool):
    metric = "answer_relevancy"
