"""Tables as text, as spreadsheets and trackers write them, read as what was written."""

from __future__ import annotations

import codecs
import io
import re
from pathlib import Path

import pandas as pd

from base.errors import UsageError
from eval.results.columns import unmark

SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (",", ";", "\t")
_BEGIN = re.compile(r"(?:[ \t]*\n)*(?:sep=(.)\n)?")  # blank lines, and Excel's own first line
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+\s*%?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}\s*%?")
_PERCENT = re.compile(r"\s*%$")
_EXCEL_TEXT = re.compile(r'^="(.*)"$', re.DOTALL)  # how Excel is kept from reading a text as a number
ROW = "row"
"""What the index of a table is called whose labels are rows of its file, counted from 1."""


def read_text_table(path: Path) -> tuple[pd.DataFrame, str]:
    """Read a table, every cell as text: a variant may be called ``none``.

    Fields may be separated by commas, semicolons or tabs.

    Args:
        path: UTF-8, or UTF-16 with its mark.

    Returns:
        The table, its index the rows of the file, blank ones counted, and what separates its fields.

    Raises:
        UsageError: If it cannot be read, is empty, or a column is there twice.
    """
    text = _decode(path)
    begin = _BEGIN.match(text)
    start, delimiter = (begin.end(), begin[1]) if begin else (0, None)
    delimiter = delimiter or _delimiter(text[start:])
    try:
        table = _parse(text, delimiter, text.count("\n", 0, start))
    except pd.errors.EmptyDataError:
        raise UsageError(f"{path} is empty; a CSV needs variant,seed,benchmark,score") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a readable CSV: {' '.join(str(error).split())}") from None
    names = table.columns
    if names.duplicated().any():
        raise UsageError(f"{path} has the column {names[names.duplicated()][0]!r} twice; name each once")
    return unmark(table), delimiter


def _decode(path: Path) -> str:
    try:
        content = path.read_bytes()
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a readable CSV: it is not UTF-8 text; save it as such") from None
    except OSError as error:
        raise UsageError(f"{path} is not a readable CSV: {error.strerror}") from None


def _delimiter(text: str) -> str:
    header = re.sub(r'"[^"]*"', "", text.split("\n", 1)[0])
    return max(_DELIMITERS, key=header.count)


def _parse(text: str, delimiter: str, num_skipped: int) -> pd.DataFrame:
    # Without a header, a row of more fields than the first is an error; with one, pandas shifts its columns.
    cells = pd.read_csv(
        io.StringIO(text),
        sep=delimiter,
        dtype=str,
        keep_default_na=False,
        skipinitialspace=True,
        header=None,
        skip_blank_lines=False,
        skiprows=num_skipped,
    )
    cells = cells.set_axis(pd.RangeIndex(num_skipped + 1, num_skipped + 1 + len(cells), name=ROW))
    cells = cells[(cells != "").any(axis=1)]
    if cells.empty:
        raise pd.errors.EmptyDataError
    if '="' in text:
        cells = cells.replace(_EXCEL_TEXT, r"\1", regex=True)
    names = cells.iloc[0].astype(str).str.strip()
    table = cells.iloc[1:].set_axis(list(names), axis=1)
    is_blank = (names == "").to_numpy() & (table == "").all().to_numpy()  # a delimiter ends each line
    return table.loc[:, ~is_blank]


def tidy_numbers(column: pd.Series, delimiter: str) -> tuple[pd.Series, bool]:
    """Take percent signs and decimal commas off numbers.

    A comma is a decimal one where fields are not separated by commas and no number has a point, unless it may
    set off thousands: ``1,234`` beside ``987``.

    Returns:
        The column, still text, and whether commas were taken for decimal ones.
    """
    texts = column.astype(str).str.strip().str.replace("\N{MINUS SIGN}", "-")
    has_comma = texts.str.fullmatch(_DECIMAL_COMMA.pattern)
    has_hundreds = texts.str.fullmatch(r"[1-9]\d\d").any()
    may_be_thousands = has_hundreds and texts[has_comma].str.fullmatch(_THOUSANDS.pattern).all()
    has_point = pd.to_numeric(texts[texts.str.contains(".", regex=False)], errors="coerce").notna().any()
    is_decimal = bool(delimiter != "," and has_comma.any() and not has_point and not may_be_thousands)
    if is_decimal:
        texts = texts.where(~has_comma, texts.str.replace(",", "."))
    return texts.str.replace(_PERCENT, "", regex=True), is_decimal


def refuse_mixed_percents(scores: pd.DataFrame, origin: str) -> None:
    """Refuse a benchmark of which some scores have a percent sign and some have none.

    Args:
        scores: With benchmark and score, as written; only those that are numbers.
        origin: Where they are from, named in errors.

    Raises:
        UsageError: Naming the benchmark.
    """
    has_sign = scores["score"].astype(str).str.strip().str.endswith("%")
    for benchmark, of_benchmark in has_sign.groupby(scores["benchmark"], sort=False):
        if of_benchmark.nunique() > 1:
            raise UsageError(
                f"{origin}: some scores of {benchmark} have a percent sign, some have none; write all alike"
            )
