"""Checks of a submission, one file per part of it; each yields what is wrong."""
