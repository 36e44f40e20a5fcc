from bridge import metric


class Faithfulness(metric.MetricTool):
    metric = "faithfulness"
