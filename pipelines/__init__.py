"""Whole jobs: the config schema, the command line, reports."""
