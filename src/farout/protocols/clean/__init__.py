"""The `clean` protocol: plan and tables."""
