"""``python -m eval.sufficiency``: see ``eval.interpretation.sufficiency``."""

from base.errors import run_cli
from eval.interpretation.sufficiency import main

if __name__ == "__main__":
    run_cli(main)
