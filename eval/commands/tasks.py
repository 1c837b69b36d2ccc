"""``python -m eval.tasks``: see ``eval.classification.tasks``."""

from base.errors import run_cli
from eval.classification.tasks.__main__ import main

if __name__ == "__main__":
    run_cli(main)
