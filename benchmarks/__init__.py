"""Measurements against the plain ways of doing the same job. `make bench`, or `python benchmarks/build.py --help`."""
