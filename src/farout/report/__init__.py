"""Report: one HTML file, text, CSV and LaTeX, written from `content` alone; `figures` draws."""
