"""``python -m eval.heads``: see ``eval.classification.heads``."""

from base.errors import run_cli
from eval.classification.heads.__main__ import main

if __name__ == "__main__":
    run_cli(main)
