"""What all other packages build on: errors, files, the command line, tables, families of models.

Reading order: ``errors`` (a mistake is one line), ``files`` and ``records`` (a file is there whole or not at
all), ``run/folder_names`` (every file of a run, by name). Then how a user's words become values: ``sections``
(fields and what is wrong with a value), ``config_input`` (YAML), ``command_line`` (flags), ``options`` (of a
variant or a head). ``families`` has the architectures as data. ``text/`` and ``hub`` are read when needed.

Every import of this project comes by here first, so Windows is told here, before anything that it lacks.
"""

import sys

WINDOWS = "Windows is not supported; use WSL2 (https://learn.microsoft.com/windows/wsl), or Linux or macOS"

if sys.platform == "win32":
    print(f"error: {WINDOWS}", file=sys.stderr)
    raise SystemExit(2)
