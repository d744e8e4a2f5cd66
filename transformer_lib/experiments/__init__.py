"""Measurements that are too long to print in a chapter: plain data out, seed and budget in."""
