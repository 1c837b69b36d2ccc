"""Show what segments contribute to predictions: ``ffn-ablations explain RUN TASK``."""

from __future__ import annotations

from collections.abc import Sequence

from eval.interpretation.arguments import SEGMENT_HEAD, ExplainArgs, parse_classifier_flags

EXAMPLES = """Show which segments of a text speak for the predicted label and which against it.

Examples:
  ffn-ablations explain RUN boolq --glue-dir DATA/glue --head "swipe segments=sentences"
  ffn-ablations explain RUN sst2 --head "swipe window=8 stride=4 pooling=sum" --examples 50 --out page.html

Writes one HTML file and a JSON file beside it. The classifier is the one that RUN keeps for this head and
these settings; where there is none, it is fine-tuned and kept."""


def main(args: Sequence[str] | None = None) -> int:
    """Read the flags, write the page, say where it is."""
    asked = parse_classifier_flags(ExplainArgs, args, SEGMENT_HEAD, "ffn-ablations explain", EXAMPLES)
    from eval.interpretation.explanation_files import explain

    print(explain(asked))
    return 0
