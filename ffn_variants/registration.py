"""Models known to transformers' Auto classes without either package being loaded before it is needed.

``transformers`` and ``torch`` take seconds to import, which a command that only reads files should not cost.
So the config classes get stand-ins in transformers' table, and the first use of one imports the models. The
stand-ins are put there as soon as that table exists, which is before anybody can look into it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Any

TABLE_MODULE = "transformers.models.auto.configuration_auto"
MODEL_TYPES = {
    "ffn_gpt_neo": "FFNGPTNeoConfig",
    "ffn_roberta": "FFNRobertaConfig",
    "ffn_t5": "FFNT5Config",
}
"""``model_type`` of config.json, and the class in ``ffn_variants.models.modeling`` that reads it."""


def register_on_demand() -> None:
    """Let the Auto classes find this project's models, whichever of both packages is imported first."""
    if _TableFinder not in sys.meta_path:
        sys.meta_path.insert(0, _TableFinder)
    # Asked for after the finder is in its place, so that no other thread's import falls between.
    if TABLE_MODULE in sys.modules:
        _add_stand_ins(importlib.import_module(TABLE_MODULE))


def _add_stand_ins(table: ModuleType) -> None:
    for model_type, name in MODEL_TYPES.items():
        if model_type not in table.CONFIG_MAPPING:
            table.AutoConfig.register(model_type, _StandIn(name, (), {}))


class _StandIn(type):
    """A class that is, for whoever uses it, the config class of the same name."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of a class is no use of the config
            raise AttributeError(name)
        return getattr(cls._config_class(), name)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls._config_class()(*args, **kwargs)

    def _config_class(cls) -> Any:
        # Registers the models and puts the config classes in the place of their stand-ins.
        return getattr(importlib.import_module("ffn_variants.models.modeling"), cls.__name__)


class _TableFinder(MetaPathFinder):
    """Finds the module that holds transformers' table as Python does, but loads it with a ``_TableLoader``.

    It stands on ``sys.meta_path`` itself, without an instance.
    """

    @classmethod
    def find_spec(
        cls, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != TABLE_MODULE:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        return spec_from_file_location(fullname, spec.origin, loader=_TableLoader(fullname, spec.origin))


class _TableLoader(SourceFileLoader):
    """Adds the stand-ins while the module is still locked, so that no thread sees it without them."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _add_stand_ins(module)
