"""The licences that a model's card may name, as the hub writes them.

https://huggingface.co/docs/hub/repositories-licenses
"""

from __future__ import annotations

from base.errors import unknown_name

LICENCES = (
    *(
        "apache-2.0",
        "mit",
        "openrail",
        "bigscience-openrail-m",
        "bigcode-openrail-m",
    ),
    *(
        "afl-3.0",
        "artistic-2.0",
        "bsl-1.0",
        "bsd",
        "bsd-2-clause",
        "bsd-3-clause",
    ),
    *(
        "bsd-3-clause-clear",
        "c-uda",
        "cc",
        "cc0-1.0",
        "cc-by-2.0",
        "cc-by-2.5",
    ),
    *(
        "cc-by-3.0",
        "cc-by-4.0",
        "cc-by-sa-3.0",
        "cc-by-sa-4.0",
        "cc-by-nc-2.0",
    ),
    *(
        "cc-by-nc-3.0",
        "cc-by-nc-4.0",
        "cc-by-nd-4.0",
        "cc-by-nc-nd-3.0",
    ),
    *(
        "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0",
        "cc-by-nc-sa-3.0",
        "cc-by-nc-sa-4.0",
    ),
    *(
        "cdla-sharing-1.0",
        "cdla-permissive-1.0",
        "cdla-permissive-2.0",
        "wtfpl",
    ),
    *(
        "ecl-2.0",
        "epl-1.0",
        "epl-2.0",
        "etalab-2.0",
        "eupl-1.1",
        "eupl-1.2",
        "agpl-3.0",
    ),
    *(
        "gfdl",
        "gpl",
        "gpl-2.0",
        "gpl-3.0",
        "lgpl",
        "lgpl-2.1",
        "lgpl-3.0",
        "isc",
        "ms-pl",
    ),
    *(
        "mpl-2.0",
        "odc-by",
        "odbl",
        "osl-3.0",
        "postgresql",
        "ofl-1.1",
        "ncsa",
        "unlicense",
    ),
    *(
        "zlib",
        "pddl",
        "unknown",
        "other",
    ),
)


def check_licence(name: str) -> None:
    """Refuse a licence that the hub does not know; ``other`` is one that it takes."""
    if name not in LICENCES:
        raise unknown_name("licence", name, LICENCES)
