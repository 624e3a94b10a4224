"""The `rood` protocol (Realistic OOD benchmark): plan, results read back, tables and figures."""
