"""Live view of a running study: a page that asks its own server for the status every few seconds."""
