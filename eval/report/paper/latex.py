"""LaTeX that compiles whatever names a table has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\N{MINUS SIGN}": "$-$", "±": r"$\pm$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\rightarrow$", "\N{INFINITY}": r"$\infty$",
    "\N{MULTIPLICATION SIGN}": r"$\times$", "≈": r"$\approx$", "≤": r"$\leq$", "≥": r"$\geq$",
    "\N{EN DASH}": "--", "\N{EM DASH}": "---", "\N{RIGHT SINGLE QUOTATION MARK}": "'", "²": "$^2$",
    "\n": " ", "\t": " ",
}  # fmt: skip
_WRITTEN = frozenset(
    "ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞßàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿĂăĄąĆćČčĎďĐđĘęĚěĞğİıĹĺĽľŁłŃńŇňŐőŒœ"
    "ŔŕŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž"
)
"""Letters that pdfLaTeX writes with the encoding T1."""
_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_GREEK_CAPITALS = ("gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi", "omega")


def escape(text: str) -> str:
    r"""Write a text so that LaTeX prints it; a letter that pdfLaTeX has no font for is named by its number.

    So two names never become one; a label writes such a name otherwise.
    """
    return "".join(map(_character, text))


def _character(found: str) -> str:
    if found in _SPECIAL:
        return _SPECIAL[found]
    if found in _WRITTEN or found.isascii():
        return found if found.isprintable() else ""
    if greek := _greek(found):
        return greek
    plain = unicodedata.normalize("NFKD", found)[0]
    if plain.isascii() and plain.isprintable():  # a ligature, a letter of full width
        return _SPECIAL.get(plain, plain)
    return f"(U+{ord(found):04X})"


def _greek(found: str) -> str:
    """Write a Greek letter by its command; empty for another, and for one that looks like a Latin letter."""
    match = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(found, ""))
    if match is None:
        return ""
    name = match[2].lower().replace("lamda", "lambda")  # codespell:ignore lamda
    if match[1] == "SMALL" and name in _GREEK:
        return rf"$\{name}$"
    return rf"$\{name.capitalize()}$" if name in _GREEK_CAPITALS else ""


def number(text: str) -> str:
    """Write a number, or an interval of two, with LaTeX's minus signs; any other text as it is."""
    if re.search(r"[A-Za-z]", text.replace("e+", "").replace("e-", "")):
        return escape(text)
    # A hyphen is a sign where no digit stands before it.
    return re.sub(r"(?<![\d.])-(?=[\d.])", "$-$", escape(text))


def booktabs(
    header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, label: str, *, is_wide: bool
) -> str:
    r"""Write a floating table in the style of booktabs.

    Args:
        header: Escaped cells; the first column is left-aligned, the others are centred.
        rows: Escaped cells; an empty row draws a thin line.
        caption: Escaped.
        label: Of ``\ref``, without a prefix.
        is_wide: Whether it spans both columns of a page of two.
    """
    star = "*" if is_wide else ""
    lines = [r"\addlinespace" if not row else _line(row) for row in rows]
    return "\n".join(
        [
            rf"\begin{{table{star}}}[t]",
            r"\centering\small",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label}}}",
            r"\setlength{\tabcolsep}{4pt}",
            rf"\begin{{tabular}}{{@{{}}l{'c' * (len(header) - 1)}@{{}}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{table{star}}}",
            "",
        ]
    )


def _line(row: Sequence[str]) -> str:
    r"""Write a row; a bracket or a star at its start would be an argument of the ``\\`` before it."""
    return ("{}" if row[0][:1] in ("[", "*") else "") + " & ".join(row) + r" \\"
