"""Excel files: one sheet of one, or all of them as one table where they have the same columns."""

from __future__ import annotations

import shlex
from pathlib import Path
from zipfile import BadZipFile

import pandas as pd

from base.errors import UsageError, first_line, unknown_name
from base.printing import first_few
from report.readers.tables import ROW
from report.request import Request

SUFFIX, SHEET = ".xlsx", "sheet"


def read_workbook(path: Path, request: Request) -> pd.DataFrame:
    """Read a table from an Excel file, its index the rows of the file.

    Args:
        path: The file.
        request: What the user said of it: ``sheet`` is the one to read. Of several with the same columns a
            column ``sheet`` has their names, which the user says the meaning of.

    Raises:
        UsageError: Without openpyxl, for an unreadable file, and where nobody said what its sheets are.
    """
    try:
        cells = pd.read_excel(
            path, sheet_name=None, header=None, dtype=object, keep_default_na=False, engine="openpyxl"
        )
    except ImportError:
        raise UsageError(
            f'{path} needs openpyxl, which is not installed; pip install "ffn-ablations[excel]" installs it, '
            "or save the sheet as CSV"
        ) from None
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise UsageError(f"{path} is not a readable Excel file: {first_line(error)}") from None
    if request.sheet is not None and request.sheet not in cells:
        raise unknown_name(f"sheet of {path} in --sheet", request.sheet, map(str, cells))
    chosen = cells if request.sheet is None else {request.sheet: cells[request.sheet]}
    tables = {str(name): table for name, sheet in chosen.items() if len(table := _table_of(sheet))}
    if not tables:
        raise UsageError(f"{path}: no sheet has column names with rows below them")
    if len(tables) > 1:
        _refuse_unsaid(tables, request, path)
    if len(tables) > 1 or request.sheet is not None:
        tables = {name: table.assign(**{SHEET: name}) for name, table in tables.items()}
    return pd.concat(tables.values()).rename_axis(ROW)


def _table_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Take the first row that is not empty for names, and leave out empty rows and columns."""
    cells = cells.set_axis(pd.RangeIndex(1, len(cells) + 1)).fillna("")
    is_filled = cells.astype(str) != ""
    cells = cells.loc[is_filled.any(axis=1), is_filled.any(axis=0)]
    if cells.empty:
        return cells
    return cells.iloc[1:].set_axis(list(cells.iloc[0].astype(str).str.strip()), axis=1)


def _refuse_unsaid(tables: dict[str, pd.DataFrame], request: Request, path: Path) -> None:
    """Refuse sheets that are no one table, or of which nobody said what tells them apart."""
    listed, most = first_few(list(tables), 8), shlex.quote(max(tables, key=lambda name: tables[name].size))
    if len({tuple(sorted(table.columns)) for table in tables.values()}) > 1:
        raise UsageError(f"{path} has sheets with different columns ({listed}); choose: --sheet {most}")
    if SHEET not in (*request.names_of_columns.values(), *request.axis):
        raise UsageError(
            f"{path} has {len(tables)} sheets with the same columns ({listed}); say what a sheet is, such as "
            f"--columns seed=sheet (or variant, benchmark), or choose one: --sheet {most}"
        )
