"""transformers' own configs and models, with the values of this project's."""

from pkgutil import resolve_name
from typing import Any

import transformers

from ffn_variants import FAMILIES, build_config

OURS = ("ffn", "ffn_options", "ffn_source", "ffn_files", "model_type", "dense_act_fn", "is_gated_act")
"""Fields that stock configs do not have, or make of others."""
OF_AN_FFN = ("activation_function", "hidden_act", "feed_forward_proj")


def stock_class(ours: type) -> Any:
    """transformers' class that one of this project's is made of."""
    return getattr(transformers, ours.__name__.removeprefix("FFN"))


def stock_config(ours: Any, **changes: Any) -> Any:
    """transformers' own config with the values of one of this project's, and changes."""
    values = {name: value for name, value in ours.to_dict().items() if name not in OURS}
    return stock_class(type(ours))(**values | changes)


def stock_model(family: str, **config: Any) -> Any:
    """transformers' own language model of a family at torch's seed; an activation may be in the config."""
    own = {name: config.pop(name) for name in OF_AN_FFN if name in config}
    ours = build_config(family, FAMILIES[family].stock_ffn, **config)
    return stock_class(resolve_name(FAMILIES[family].model_class))(stock_config(ours, **own)).eval()
