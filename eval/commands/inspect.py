"""``python -m eval.inspect``: see ``eval.inspection.command``."""

from base.errors import run_cli
from eval.inspection.command import main

if __name__ == "__main__":
    run_cli(main)
