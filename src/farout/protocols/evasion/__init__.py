"""The `evasion` protocol (adversarial examples): plan, results read back, tables and figures."""
