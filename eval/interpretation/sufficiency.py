"""Test whether the segments that explain a label suffice for it: ``python -m eval.sufficiency RUN TASK``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.errors import UsageError, run_cli
from base.files import write_text
from base.progress import Tell
from eval.interpretation.commands import ClassifierArgs, find_task, parse_classifier_flags, say_rarely
from eval.interpretation.segment_classifiers import SEGMENT_HEAD
from eval.report.names import file_name
from pretrain.run.folders import RunFolder

if TYPE_CHECKING:
    import numpy as np

    from eval.classification.inputs.segments import Segmented
    from eval.classification.tasks.task import ClassificationTask
    from eval.interpretation.kept_classifiers import FineTunedClassifier
    from eval.interpretation.selections import Documents, Sufficiency

EXAMPLES = """Train a bag of words on a few segments of each document, and see which choice serves best: those
with the highest score for the predicted label, those with most attention, or those drawn at random.

Examples:
  python -m eval.sufficiency RUN sst2 --glue-dir DATA/glue --head "swipe window=16 stride=4"
  python -m eval.sufficiency RUN boolq --head "swipe segments=sentences" --segments-kept 3 --draws 10

Attention is that of the last layer of a second classifier of the same run, which reads whole documents, as
far as the model reads, through the mean of their tokens. What RUN does not keep yet is fine-tuned."""


@dataclass(frozen=True, kw_only=True)
class SufficiencyArgs(ClassifierArgs):
    """What ``python -m eval.sufficiency`` is asked to do."""

    segments_kept: int = 1
    """Segments of each document that a bag of words reads."""
    draws: int = 5
    """How many times segments are drawn at random."""
    train_documents: int = 10_000
    """Training documents that bags of words are trained on, evenly spaced over the file."""
    seed: int = 0
    """Of the random draws."""
    out: Path | None = None
    """The JSON file (null: RUN/eval/sufficiency/TASK-HEAD.json)."""


@dataclass(frozen=True)
class _Part:
    """The training or the validation documents: the examples' inputs, and their segments."""

    inputs: list
    data: Segmented

    @property
    def documents(self) -> Documents:
        from eval.classification.inputs.example_text import as_one_text
        from eval.interpretation.selections import Documents

        texts = [as_one_text(example) for example in self.inputs]
        segments = [
            [text[start:stop] for start, stop in own] for text, own in zip(texts, self.spans, strict=True)
        ]
        return Documents(segments, self.data.labels)

    @property
    def spans(self) -> list[np.ndarray]:
        """For each document the characters of its segments."""
        import numpy as np

        return np.split(self.data.spans, self.data.starts[1:])


def measure(args: SufficiencyArgs, tell: Tell = lambda message: None) -> list[Sufficiency]:
    """Fine-tune or load the two classifiers, let both select, and train bags of words on what they select.

    Raises:
        UsageError: For a head without segments, or data or a run that cannot be used.
    """
    from eval.interpretation.segment_classifiers import (
        load_segment_classifier,
        note_few_segments,
        predict_segments,
    )
    from eval.interpretation.selections import compare_selections

    for name in ("segments_kept", "draws", "train_documents"):
        if (value := getattr(args, name)) < 1:
            raise UsageError(f"--{name.replace('_', '-')} is {value}; it must be 1 or more")
    task = find_task(args.task, args.config)
    found = load_segment_classifier(args.run, task, args.config)
    note_few_segments(found, args.segments_kept)
    parts = _parts(task, found, args)
    tell("scoring segments")
    by_score = [predict_segments(found, part.data).contributions() for part in parts]
    by_attention = _attention(args, task, parts, tell)
    scores = {"highest": (by_score[0], by_score[1]), "attention": (by_attention[0], by_attention[1])}
    documents = [part.documents for part in parts]
    return compare_selections(
        documents[0], documents[1], scores, args.segments_kept, args.draws, args.seed, tell
    )


def _parts(task: ClassificationTask, found: FineTunedClassifier, args: SufficiencyArgs) -> list[_Part]:
    from eval.classification.inputs.data import read_task_data, with_turns
    from eval.classification.tasks.examples import read_examples
    from eval.scoring.log_likelihood import num_positions
    from eval.zero_shot.task import evenly_spaced

    max_length = min(found.settings.max_length, num_positions(found.classifier.body))
    data: Any = read_task_data([task], found.tokenizer, max_length, args.config, found.settings).train
    chosen = evenly_spaced(list(range(len(data))), args.train_documents)
    rows = read_examples(task, "train", args.config)
    train = _Part([with_turns(task, rows[number]) for number in chosen], data.take(chosen))
    validation: Any = found.validation
    return [train, _Part([with_turns(task, row) for row in found.rows], validation)]


def _attention(
    args: SufficiencyArgs, task: ClassificationTask, parts: list[_Part], tell: Tell
) -> list[list[np.ndarray]]:
    """Return for each part, for each document, the attention that its segments get."""
    from eval.classification.inputs.example_text import JOINT, parts_of
    from eval.classification.inputs.tokens import encode
    from eval.interpretation.attention_shares import attention_shares, shares_of_spans
    from eval.interpretation.kept_classifiers import fine_tuned
    from eval.scoring.log_likelihood import num_positions

    finetune = args.config.finetune.model_copy(update={"head": ("linear",), "pooling": "mean"})
    tell("fine-tuning the classifier whose attention is read, unless it is there")
    baseline = fine_tuned(args.run, task, args.config.model_copy(update={"finetune": finetune}), tell)
    max_length = min(baseline.settings.max_length, num_positions(baseline.classifier.body))
    found = []
    for part in parts:
        tell("reading attention")
        whole = [(JOINT.join(parts_of((first, None))), second) for first, second in part.inputs]
        encoded = encode(baseline.tokenizer, whole, [0] * len(whole), max_length)
        shares = attention_shares(baseline.classifier.body, encoded)
        found.append(shares_of_spans(baseline.tokenizer, part.inputs, max_length, shares, part.spans))
    return found


def main() -> int:
    """Read the flags, test, write the JSON file and print the table."""
    args = parse_classifier_flags(SufficiencyArgs, SEGMENT_HEAD, "python -m eval.sufficiency", EXAMPLES)
    results = measure(args, say_rarely())

    from eval.interpretation.selections import table

    task, head = find_task(args.task, args.config).name, str(args.config.finetune.heads[0])
    out = args.out or RunFolder(args.run).sufficiency_dir / f"{file_name(task, head)}.json"
    content = {
        "run": str(args.run),
        "task": task,
        "head": head,
        "segments_kept": args.segments_kept,
        "draws": args.draws,
        "seed": args.seed,
        "train_documents": args.train_documents,
        "results": [asdict(result) for result in results],
    }
    write_text(out, json.dumps(content, indent=1))
    print(f"{table(results)}\n{out}")
    return 0


if __name__ == "__main__":
    run_cli(main)
