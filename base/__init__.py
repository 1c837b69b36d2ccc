"""What all other packages build on: errors, files, the command line, tables, families of models.

Every import of this project comes by here first, so Windows is told here, before anything that it lacks.
"""

import sys

WINDOWS = "Windows is not supported; use WSL2 (https://learn.microsoft.com/windows/wsl), or Linux or macOS"

if sys.platform == "win32":
    print(f"error: {WINDOWS}", file=sys.stderr)
    raise SystemExit(2)
