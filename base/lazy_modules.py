"""Libraries that take long to import: those that a command may never use, and those that it needs."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def without_collecting() -> Iterator[None]:
    """Import libraries without a search for garbage in between, nor later among the objects that they make.

    They make half a million that stay, and to search through them took a tenth of the time of short commands.
    """
    was_enabled, num_modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > num_modules:  # else what is garbage would stay for nothing
            gc.freeze()
        if was_enabled:
            gc.enable()
