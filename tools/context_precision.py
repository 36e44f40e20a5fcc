from bridge import metric_tool


class ContextPrecision(metric_tool.MetricTool):
    metric = "context_precision"
