"""Measure the library against what people use now: ``python -m benchmarks --help``."""
