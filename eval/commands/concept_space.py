"""``python -m eval.concept_space``: see ``eval.interpretation.concept_space``."""

from base.errors import run_cli
from eval.interpretation.concept_space import main

if __name__ == "__main__":
    run_cli(main)
