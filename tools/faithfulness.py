from bridge import metric_tool


class Faithfulness(metric_tool.MetricTool):
    metric = "faithfulness"
