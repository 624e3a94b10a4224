"""Values for the page's template: verdicts and overview, tables, figures and pictures as plain text and numbers."""
