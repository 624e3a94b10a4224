"""The `evg` protocol (Evaluation via Generation): plan, results read back, tables and figures."""
