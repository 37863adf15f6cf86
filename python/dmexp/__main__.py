"""``python -m dmexp``, for when the script is not on PATH."""

from .cli import entry

if __name__ == "__main__":
    entry()
