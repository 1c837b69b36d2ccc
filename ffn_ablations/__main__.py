"""``python -m ffn_ablations``: see ``ffn_ablations.cli``."""

from ffn_ablations.cli import run

if __name__ == "__main__":
    run()
