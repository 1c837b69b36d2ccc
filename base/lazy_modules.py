"""Libraries that a command imports at the top of its files and may never use."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

LAZY = ("numpy", "pandas", "pyarrow", "pyarrow.parquet", "transformers")
LAZY += ("scipy", "scipy.linalg", "scipy.special")
"""Each takes tenths of a second."""
_USES = ("__path__", "__version__")
"""Of the names with underscores; others are looked up in all modules, as ``inspect`` does."""


class _LazyModule(ModuleType):
    """Stands for a module until a name in it is used, and then has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _USES:
            raise AttributeError(name)
        package = self.__name__.partition(".")[0]
        for each in LAZY:  # a package that is loaded looks for its own modules, not for what stands for them
            if each.partition(".")[0] == package and isinstance(sys.modules.get(each), _LazyModule):
                del sys.modules[each]
        module = importlib.import_module(self.__name__)
        vars(self).update(vars(module))
        return getattr(module, name)


def defer_imports() -> None:
    """Let an import of one of ``LAZY`` load it at its first use; for processes that are one command."""
    for name in LAZY:
        package, _, attribute = name.rpartition(".")
        spec = None if package or name in sys.modules else find_spec(name)
        if spec is None and not isinstance(sys.modules.get(package), _LazyModule):
            continue  # loaded, not installed, or a module of a package that is loaded
        sys.modules[name] = module = _LazyModule(name)
        module.__spec__ = spec
        if package:
            setattr(sys.modules[package], attribute, module)
