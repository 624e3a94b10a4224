"""Protocol `raised_bar`: plan, stored results, tables and figures."""
