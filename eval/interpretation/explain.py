"""Look into a run's classifier: ``ffn-ablations explain RUN TASK``.

Each look gives ``Findings``; this module chooses the look and writes its files.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence

from base.command_line import parse_flags
from base.errors import run_cli
from base.files import write_text
from eval.interpretation.arguments import ExplainArguments
from pretrain.run.folders import RunFolder

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
fine-tuned and kept. What no flag says of fine-tuning is as in the run's study, or as the preset says. The
files lie in RUN/eval/explanations."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, look, write the files and say where they are."""
    asked = parse_flags(ExplainArguments, args, prog="python -m eval.explain", description=EXAMPLES)
    asked.refuse_unused()
    config = asked.settings()
    from eval.interpretation import page, segments, spaces, sufficiency
    from eval.interpretation.classifiers import Subject, find_task
    from eval.models.identity import admit_run
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
    findings = looks[asked.look](subject, asked)
    heads = [str(head) for head in config.finetune.heads]
    content = {"run": str(asked.run), "task": subject.task.name, "heads": heads, **findings.content}
    files = {**findings.files, ".json": json.dumps(content, indent=1)}
    name = file_name(subject.task.name, heads[0]) + (f"-{asked.look}" if asked.look else "")
    print(findings.files.get(".md", ""), end="")
    for suffix, text in files.items():
        path = RunFolder(asked.run).explanations_dir / f"{name}{suffix}"
        write_text(path, text)
        print(path)
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


if __name__ == "__main__":
    run_cli(main)
