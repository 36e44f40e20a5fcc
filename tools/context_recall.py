from bridge import metric


class ContextRecall(metric.MetricTool):
    metric = "context_recall"
