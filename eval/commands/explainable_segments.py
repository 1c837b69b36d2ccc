"""``python -m eval.explainable_segments``: see ``eval.interpretation.explainable_segments``."""

from base.errors import run_cli
from eval.interpretation.explainable_segments import main

if __name__ == "__main__":
    run_cli(main)
