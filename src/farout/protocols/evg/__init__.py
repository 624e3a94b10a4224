"""Protocol `evg` (Evaluation via Generation): plan, stored results, tables and figures."""
