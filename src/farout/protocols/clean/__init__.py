"""Protocol `clean`: plan and tables."""
