"""lm-eval's own command line with this project's models: ``python -m eval.lmeval --model ffn-clm ...``.

    python -m eval.lmeval --model ffn-mlm --model_args pretrained=RUN,protocol=lm-eval --tasks blimp

lm-eval has no plug-ins: a model exists once its module is imported, which is all that this adds. RUN is a
run's folder or its model's, and every field of ``--protocol`` is a model argument.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from base.errors import run_cli


def main(args: Sequence[str] | None = None) -> None:
    """Register the models and hand over to lm-eval."""
    from lm_eval.__main__ import cli_evaluate

    import eval.scoring.lm_eval_models  # noqa: F401  registers ffn-clm, ffn-mlm and ffn-s2s

    if args is not None:
        sys.argv[1:] = args  # it reads those of the process
    cli_evaluate()


if __name__ == "__main__":
    run_cli(main)
