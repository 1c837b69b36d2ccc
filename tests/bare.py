"""An interpreter with the installed packages and without this project: what somebody else has.

``-S`` leaves out the ``.pth`` files by which an editable installation is found, ``-I`` the paths of the
environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

SITE = Path(torch.__file__).parents[1]
_WITHOUT = f"""
import sys
sys.path.append({str(SITE)!r})
for name in ("ffn_variants", "base", "pretrain"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{{name}} can be imported here")
"""


def run_bare(code: str, *args: object, home: Path, **variables: str) -> Any:
    """Run Python there; it gets ``args`` as text, and what its last line prints is read as JSON.

    Args:
        code: What to run.
        *args: ``sys.argv[1:]``.
        home: For the caches of the Hugging Face libraries.
        **variables: Of the environment.
    """
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    chosen = {"HF_HOME": str(home), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _WITHOUT + code, *map(str, args)],
        env={**environment, **chosen},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
