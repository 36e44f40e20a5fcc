from bridge import metric_tool


class ContextRecall(metric_tool.MetricTool):
    metric = "context_recall"
