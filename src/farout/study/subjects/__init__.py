"""Subjects: the detectors under test, one file per origin."""
