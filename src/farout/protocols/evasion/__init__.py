"""Protocol `evasion` (adversarial examples): plan, stored results, tables and figures."""
