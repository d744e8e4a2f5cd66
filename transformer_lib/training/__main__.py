"""``python -m transformer_lib.training``."""

from transformer_lib.training.command import program

if __name__ == "__main__":
    program()
