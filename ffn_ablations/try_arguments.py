"""What ``ffn-ablations try`` is given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from base.command_line import Positional
from base.options import check_name
from base.other_names import OtherNames
from base.sections import Section
from base.text.text_files import TextSplit
from slurm.arguments import AtLeastOne

HELD_OUT_FILE = "a file of --texts whose name has valid, dev or test"


class TryArgs(Section):
    """Is a layer better than gelu and swiglu? Check it, time it, run the largest study that fits.

    A class of nn.Module is enough: one whose constructor takes nothing, or the inner width, is an activation
    between two linear layers; one that takes hidden_size and intermediate_size is a whole FFN.

    Examples:
      ffn-ablations try mine.py:MyFFN
      ffn-ablations try mine.py:MyFFN --texts stories.jsonl.gz --minutes 60

    It writes try-<layer>.yaml, and goes on with that file where it is there already.
    """

    hints: ClassVar = OtherNames("try")

    layer: Positional[str]
    """A file and the name of a class of nn.Module, or of an FFNSpec, in it: path/to/mine.py:MyFFN."""
    texts: tuple[Path, ...] = ()
    """Files or folders of text to train on: jsonl, parquet, txt; one whose name has valid, validation, val,
    dev, test or held-out is held out. Without any a generated corpus shows that the layer works, and ranks
    nothing."""
    txt_split: TextSplit = "endoftext"
    """What ends a document of a .txt: <|endoftext|>, each line, blank lines, or the file alone."""
    text_field: str = "text"
    """What holds the text in .jsonl and .parquet files."""
    minutes: Annotated[float, Field(gt=0, le=100_000)] = 30.0
    """What all of it may take on this machine."""
    against: Annotated[tuple[str, ...], Field(min_length=1)] = ("gelu", "swiglu")
    """What it is compared with; the first is the baseline."""
    cluster: Path | None = None
    """Run the study as jobs of SLURM with this preset; it is timed here."""
    name: Annotated[str | None, AfterValidator(lambda name: name and check_name(name))] = None
    """Of the study and its file, NAME.yaml (default: try-<layer>)."""
    workers: AtLeastOne = 2
    """Runs at the same time."""
    dry_run: bool = False
    """Check, time and show the plan; leave nothing."""
