"""Report: one HTML file, text, CSV and LaTeX, written from `content` alone.

The page is template.html with values from `views` and interactive charts from `charts` (plotly). `export` writes tables
as Parquet, and figures for print, which `figures` draws (matplotlib).
"""
