"""``python -m eval.explain``: see ``eval.interpretation.explain``."""

from base.errors import run_cli
from eval.interpretation.explain import main

if __name__ == "__main__":
    run_cli(main)
