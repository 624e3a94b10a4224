"""Protocol `rood` (Realistic OOD benchmark): plan, stored results, tables and figures."""
