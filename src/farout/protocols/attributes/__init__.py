"""Protocol `attributes` (SHAPES and CHARS): plan, stored results, tables and figures."""
