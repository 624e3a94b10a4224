"""The report: one HTML file, text, CSV and LaTeX, made from `content` alone; `figures` draws."""
