"""The `attributes` protocol (SHAPES and CHARS): plan, tables and figures."""
