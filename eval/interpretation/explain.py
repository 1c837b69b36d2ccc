"""Look into a run's classifier: ``ffn-ablations explain RUN TASK``.

Each look gives a ``Document``; this module chooses the look and writes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from base.command_line import parse_flags
from eval.interpretation.arguments import ExplainArguments
from pretrain.run.folders import RunFolder

PAGE_NAME = "explanation"
TELL_EVERY_S = 20.0
EXAMPLES = """Look into a classifier: what speaks for the labels that it gives to texts.

Examples:
  ffn-ablations explain RUN boolq --head "swipe segments=sentences" --glue-dir DATA/glue
  ffn-ablations explain RUN sst2 --measure lime
  ffn-ablations explain RUN sst2 --measure sufficiency --head "swipe window=16 stride=4" --segments-kept 3
  ffn-ablations explain RUN imdb-long --measure sufficiency --lengths 64 128 256 --max-length 512
  ffn-ablations explain RUN multiwoz --measure segments --head "swipe segments=turns"
  ffn-ablations explain RUN sst2 --plot spaces --head "space num_dimensions=2"

The classifier is the one that RUN keeps for this head and these settings; where there is none, it is
fine-tuned and kept. What no flag says of fine-tuning is as in the run's study, or as the preset says.

Writes explanation.html (open it), explanation.md, explanation.json with every number, figures/ and tables/
into a folder of the task, the head and the measure in RUN/eval/explanations."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, look, write the page and say where it is."""
    asked = parse_flags(ExplainArguments, args, prog="ffn-ablations explain", description=EXAMPLES)
    asked.refuse_unused()
    config = asked.settings()
    from eval.interpretation import page, segments, spaces, sufficiency
    from eval.interpretation.classifiers import Subject, find_task
    from eval.models.identity import admit_run
    from eval.report.document.document import write_document
    from eval.report.document.names import file_name

    looks = {
        None: page.explain,
        "lime": page.explain_by_lime,
        "sufficiency": sufficiency.measure,
        "segments": segments.measure,
        "spaces": spaces.draw,
    }
    subject = Subject(asked.run, find_task(asked.task, config), config, _tell_rarely())
    admit_run(asked.run, asked.trust_remote_code)
    document = looks[asked.look](subject, asked)
    heads = [str(head) for head in config.finetune.heads]
    about = {"run": str(asked.run), "task": subject.task.name, "heads": heads}
    document = replace(document, record={**about, **document.record})
    name = file_name(subject.task.name, heads[0]) + (f"-{asked.look}" if asked.look else "")
    path = write_document(document, RunFolder(asked.run).explanations_dir / name, PAGE_NAME)
    print(document.blocks[0], f"\n{path.with_suffix('.html')}", sep="\n")
    return 0


def _tell_rarely() -> Callable[[str], None]:
    """Make a function that prints a message on standard error, at most one every ``TELL_EVERY_S`` seconds."""
    next_s = 0.0

    def tell(message: str) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            print(message, file=sys.stderr)
            next_s = time.monotonic() + TELL_EVERY_S

    return tell
