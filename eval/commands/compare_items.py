"""``python -m eval.compare_items``: see ``eval.report.two_models.command``."""

from base.errors import run_cli
from eval.report.two_models.command import main

if __name__ == "__main__":
    run_cli(main)
