"""The library of the course *The Transformer, Barrier by Barrier*.

Importing it imports nothing heavy; take what you need from the subpackages:
``reference`` (NumPy, the equations forward and backward), ``nn`` (PyTorch, fast),
``decoding``, ``tasks``, ``training``, ``experiments``, ``plotting``, ``widgets``
and ``exercises``.
"""

__version__ = "0.1.0"
