"""The registry: names, counts, options, errors and the table."""

import pytest

from ffn_variants import FFN_VARIANTS, UsageError, build_ffn, get_variant
from ffn_variants.list_variants import TableArgs, main, table_rows

D, F = 12, 20


@pytest.mark.parametrize("name", FFN_VARIANTS)
def test_a_spec_has_a_name_a_description_and_the_count_of_its_module(name):
    spec = FFN_VARIANTS[name]
    assert spec.name == name
    assert spec.formula
    assert spec.reference
    assert all(option.help for option in spec.options.values())
    assert spec.num_params(D, F) == sum(p.numel() for p in build_ffn(name, D, F).parameters())


def test_unknown_variant_names_closest_and_all():
    with pytest.raises(UsageError) as error:
        get_variant("kann")
    available = ", ".join(FFN_VARIANTS)
    assert f"variant 'kann'; did you mean 'kan'? Available: {available}; one in a file" in str(error.value)


def test_a_size_below_one_is_a_usage_error():
    with pytest.raises(UsageError, match="hidden_size must be at least 1, got 0"):
        build_ffn("gelu", hidden_size=0, intermediate_size=F)


def test_the_command_prints_every_variant_in_aligned_columns_and_options(capsys):
    main(["--intermediate-size", "256", "--options"])
    table, options = capsys.readouterr().out.split("\n\n")
    header, *lines = table.splitlines()
    end = header.index("parameters") + len("parameters")
    assert all(line[end - 1] != " " and line[end] == " " for line in lines)
    counts = {line.split()[0]: line[:end].split()[-1] for line in lines}
    assert list(counts) == list(FFN_VARIANTS)
    assert counts["kan"] == "2,621,440"
    assert "grid_size = 5" in options
    assert len(table_rows(TableArgs(hidden_size=1, intermediate_size=1))) == len(FFN_VARIANTS) + 1
