from bridge import metric


class ContextPrecision(metric.MetricTool):
    metric = "context_precision"
