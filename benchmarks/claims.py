"""How often a report claims a difference that is none: docs/error-rates.md."""

from __future__ import annotations

import json
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from tqdm import tqdm

from base.command_line import parse_flags
from base.errors import run_cli
from base.sections import Section
from benchmarks.simulated import (
    BASELINE_WIDE,
    NOISES,
    OTHERS_WIDE,
    Scenario,
    findings_of,
    judged,
    judged_by_holm,
    may_claim,
)
from report.significance.comparison import Inference

Kind = Literal["nothing differs", "one differs", "one lies at the margin", "one family lies at the margin"]
Record = Mapping[str, object]

DIFFERENCE = 2.5
"""Of the first variant on all outcomes, and the margin of equivalence; in standard deviations of a run."""
FAMILIES = {(1, 1): 1, (1, 6): 2, (9, 1): 1, (9, 2): 2, (9, 6): 2, (40, 1): 1}
"""By variants and outcomes."""
RUNS = ((3, 3), (5, 5), (10, 10), (3, 10), (10, 3))
"""Of every variant, and of the baseline."""
WHOLE = (9, 2)
"""The shape that meets every noise where nothing differs; all else meets what is usual and what was worst."""
WORST = ("alike", BASELINE_WIDE, OTHERS_WIDE)
ENTRIES = "entries.jsonl"
DOCUMENT_WIDTH = 100
MARGIN_CLAIMS = ("equivalence", "within margin")
MEASURES = (
    "false",
    "found",
    "missed by an interval",
    "refused",
    *(f"false {name}" for name in MARGIN_CLAIMS),
)
"""What ``judged`` measures."""


class Entry(NamedTuple):
    """Studies of one kind."""

    shape: tuple[int, int]
    """Variants beside the baseline, and outcomes."""
    runs: tuple[int, int]
    noise: str
    kind: Kind

    @property
    def name(self) -> str:
        """Its row and column in words."""
        return f"{self.shape_in_words} | {self.runs_in_words} | {self.noise} | {self.kind}"

    @property
    def shape_in_words(self) -> str:
        """Such as ``9 x 2``."""
        return f"{self.shape[0]} x {self.shape[1]}"

    @property
    def runs_in_words(self) -> str:
        """One number, or those of the variants against those of the baseline."""
        return str(self.runs[0]) if self.runs[0] == self.runs[1] else f"{self.runs[0]} against {self.runs[1]}"

    @property
    def cost(self) -> int:
        """Comparisons of one study, within families."""
        return FAMILIES[self.shape] * self.shape[0] * self.shape[1]

    @property
    def scenario(self) -> Scenario:
        """What is drawn."""
        truth = np.zeros((FAMILIES[self.shape], *self.shape))
        if self.kind == "one family lies at the margin":
            truth[0, 0, 0] = DIFFERENCE
        elif self.kind == "one lies at the margin":
            truth[:, 0, 0] = DIFFERENCE
        elif self.kind == "one differs":
            truth[:, 0] = DIFFERENCE
        margin = DIFFERENCE if "margin" in self.kind else 1.0
        return Scenario(truth=truth, runs=self.runs, noise=NOISES[self.noise], margin=margin)


class ClaimsArgs(Section):
    """How often a report claims a difference that is none, and how many it finds: docs/error-rates.md.

        python -m benchmarks.claims --out FOLDER --workers 2

    Simulates studies of many shapes. Their scores go through the report's own comparisons, correction and
    verdicts (``report.verdicts.findings``); beside them stand Welch's tests with Holm's correction of the
    same studies. Prints markdown; numbers are percentages. With ``--out`` every finished entry is a line of
    ``entries.jsonl`` there and is not simulated again; the tables are written beside it.
    """

    out: Path | None = None
    """Folder for finished entries and the tables; None prints the tables and keeps nothing."""
    studies: int = 1_000
    """Simulated studies for each entry in which nothing differs."""
    power_studies: int = 300
    """The same where something differs."""
    draws: int = 999
    """Whole studies that the report draws for each simulated one; its default is 10,000."""
    workers: int = 1
    """Processes that share the entries."""
    generator_seed: int = 0
    """Seed of the simulation."""


def rows_of(kind: Kind) -> list[tuple[tuple[int, int], str]]:
    """Shape and noise of every row of a table."""
    is_whole = kind == "nothing differs"
    return [
        (shape, noise)
        for shape, noise in product(FAMILIES, NOISES)
        if noise in WORST or (is_whole and shape == WHOLE)
    ]


def entries() -> list[Entry]:
    """Name every entry of the tables, in their order."""
    kinds: tuple[Kind, ...] = ("nothing differs", "one differs")
    margins: tuple[Kind, ...] = ("one lies at the margin", "one family lies at the margin")
    return [
        *(
            Entry(shape, runs, noise, kind)
            for kind in kinds
            for shape, noise in rows_of(kind)
            for runs in RUNS
        ),
        *(Entry(WHOLE, runs, "alike", kind) for runs in RUNS[:3] for kind in margins),
    ]


def simulated(entry: Entry, args: ClaimsArgs) -> Record:
    """Return the mean of every measure over the studies of an entry, in percent."""
    rng = np.random.default_rng([args.generator_seed, zlib.crc32(entry.name.encode())])
    scenario, inference = entry.scenario, Inference(num_draws=args.draws, most_draws=args.draws)
    count = args.studies if entry.kind == "nothing differs" else args.power_studies
    by_report, by_holm = [], []
    for _ in range(count):
        tables = scenario.draw(rng)
        if entry.kind != "nothing differs" or may_claim(tables, inference):
            by_report.append(judged(scenario, findings_of(tables, inference)))
        else:
            by_report.append(dict.fromkeys(MEASURES, False))
        by_holm.append(judged_by_holm(scenario, tables))
    means = 100 * pd.DataFrame(by_report).astype(float).mean()
    old = 100 * pd.DataFrame(by_holm).astype(float).mean().add_prefix("Holm: ")
    rates = pd.concat([means, old]).round(2).to_dict()
    return {"entry": entry.name, "studies": count, "draws": args.draws} | {
        str(k): v for k, v in rates.items()
    }


def records_of(wanted: Sequence[Entry], args: ClaimsArgs) -> dict[str, Record]:
    """Read finished entries and simulate the others, null and small studies first."""
    store = None if args.out is None else args.out / ENTRIES
    lines = store.read_text().splitlines() if store is not None and store.exists() else []
    found = {str(record["entry"]): record for record in map(json.loads, lines)}
    missing = [entry for entry in wanted if entry.name not in found]
    missing.sort(key=lambda entry: (entry.kind != "nothing differs", entry.cost))
    for record in tqdm(_simulated(missing, args), total=len(missing), disable=None):
        found[str(record["entry"])] = record
        if store is not None:
            store.parent.mkdir(parents=True, exist_ok=True)
            with store.open("a") as file:
                file.write(json.dumps(record) + "\n")
    return found


def _simulated(missing: Sequence[Entry], args: ClaimsArgs) -> Iterator[Record]:
    work = partial(simulated, args=args)
    if args.workers == 1:
        yield from map(work, missing)
        return
    with ProcessPoolExecutor(args.workers) as pool:
        for future in as_completed([pool.submit(work, entry) for entry in missing]):
            yield future.result()


def tables_of(records: Mapping[str, Record]) -> str:
    """Write the tables as markdown."""
    sections = [
        _worst(records),
        _section("Any false claim", "nothing differs", "false", records),
        _section("Differences found", "one differs", "found", records),
        _margin_section(records),
    ]
    return "\n\n".join(sections) + "\n"


def _section(title: str, kind: Kind, measure: str, records: Mapping[str, Record]) -> str:
    """Write a row for each shape and noise: by the report, and by Holm's correction of Welch's tests."""
    rows = []
    for shape, noise in rows_of(kind):
        of_row = [Entry(shape, runs, noise, kind) for runs in RUNS]
        cells = [_both(records.get(entry.name), measure) for entry in of_row]
        rows.append([of_row[0].shape_in_words, noise, *cells])
    header = [
        "variants x outcomes",
        "spread",
        *(Entry(WHOLE, runs, "alike", kind).runs_in_words for runs in RUNS),
    ]
    return f"### {title}\n\n{_markdown(header, rows)}"


def _both(record: Record | None, measure: str) -> str:
    digits = 1 if measure == "false" else 0
    return " / ".join(_rate(record, name, digits) for name in (measure, f"Holm: {measure}"))


def _rate(record: Record | None, measure: str, digits: int = 1) -> str:
    return "-" if record is None else f"{record[measure]:.{digits}f}"


def _margin_section(records: Mapping[str, Record]) -> str:
    rows = [
        [
            entry.kind,
            entry.runs_in_words,
            *(_rate(records.get(entry.name), f"false {name}") for name in MARGIN_CLAIMS),
        ]
        for entry in entries()
        if "margin" in entry.kind
    ]
    return f"### Equivalence\n\n{_markdown(['truth', 'runs', *MARGIN_CLAIMS], rows)}"


def _worst(records: Mapping[str, Record]) -> str:
    """Say the worst of every table, and of what no table has a column for."""
    null, beside = (
        [record for name, record in records.items() if name.endswith(kind)]
        for kind in ("nothing differs", "one differs")
    )
    worst = (
        f"Where nothing differs, some claim is false in at most {_at_worst(null, 'false')}; by Welch's tests "
        f"with Holm's correction in at most {_at_worst(null, 'Holm: false')}. Where one variant differs, "
        f"some claim on the others is false in at most {_at_worst(beside, 'false')}, and some simultaneous "
        f"interval misses the truth in at most {_at_worst(beside, 'missed by an interval')}."
    )
    return textwrap.fill(worst, DOCUMENT_WIDTH, break_on_hyphens=False)


def _at_worst(records: Sequence[Record], measure: str) -> str:
    worst = max(records, key=lambda record: float(str(record[measure])))
    where = str(worst["entry"]).split(" | ")
    return f"{worst[measure]:.1f}% of studies ({where[0]}, {where[1]} runs, {where[2]})"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (header, ["---"] * len(header), *rows))


def main(args: Sequence[str] | None = None) -> None:
    """Print the tables as markdown."""
    options = parse_flags(ClaimsArgs, args, prog="python -m benchmarks.claims")
    written = tables_of(records_of(entries(), options))
    if options.out is not None:
        (options.out / "tables.md").write_text(written)
    print(written, end="")


if __name__ == "__main__":
    run_cli(main)
