"""The core of the RAG Evaluator: samples, judge, metrics, reports. It knows nothing of Dify."""
