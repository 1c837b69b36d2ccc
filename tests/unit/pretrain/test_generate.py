"""Text from trained models, and the command that writes it."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from transformers.utils.logging import disable_progress_bar

from base.families import FAMILIES
from pretrain.data.prepare import prepare_data
from pretrain.generate import main
from pretrain.model.build import build, special_token_ids
from pretrain.resolution import load_config
from pretrain.sampling import continue_texts, sample_section
from pretrain.training.training_run import train
from tests.cases import small_run

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Train a small run once for each set of flags."""
    folder, runs = tmp_path_factory.mktemp("runs"), {}

    def _run(*flags: str) -> Path:
        if flags not in runs:
            runs[flags] = train(load_config(None, list(flags), small_run(folder)))
        return runs[flags]

    return _run


def load(path: Path):
    model = AutoModelForCausalLM.from_pretrained(path / "model")
    return model.eval(), AutoTokenizer.from_pretrained(path / "model")


def test_greedy_text_is_the_argmax_of_one_forward_pass_per_token(run):
    """Without cache and without transformers' generate; longer than the window of the local layers."""
    folder = run("--ffn", "gelu")
    model, tokenizer = load(folder)
    ids = [tokenizer.bos_token_id, *tokenizer(PROMPT, add_special_tokens=False)["input_ids"]]
    prompt = len(ids)
    with torch.no_grad():
        while len(ids) < prompt + 25 and ids[-1] != tokenizer.eos_token_id:
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    assert len(ids) - prompt > 9
    expected = tokenizer.decode(ids, skip_special_tokens=True)
    wrapping = prepare_data(load_config(folder / "config.yaml", [])).tokenizer  # as models of before have it
    assert wrapping(PROMPT)["input_ids"] == [*tokenizer(PROMPT)["input_ids"], 2]
    for each in (tokenizer, wrapping):
        assert continue_texts(model, each, [PROMPT], 25, temperature=0) == [expected]
    write = pipeline("text-generation", str(folder / "model"), device="cpu")
    assert write(PROMPT, max_new_tokens=25, do_sample=False)[0]["generated_text"] == expected


def test_the_seed_decides_the_draws_and_nothing_else_is_touched(run):
    model, tokenizer = load(run("--ffn", "gelu"))
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, two = continue_texts(model, tokenizer, ["The"], 20, seed=1, num=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert continue_texts(model, tokenizer, ["The"], 20, seed=1, num=2) == [one, two]
    assert one != two
    assert continue_texts(model, tokenizer, ["The"], 20, seed=2) != [one]


def test_the_command_writes_texts_that_begin_with_their_prompts(run, capsys):
    for folder in (run("--ffn", "gelu"), run("--ffn", "gelu") / "model"):
        capsys.readouterr()
        flags = ["--prompt", "The dog", "One day, a girl", "--num", "2", "--max-new-tokens", "500"]
        main([str(folder), *flags])
        texts = capsys.readouterr().out.strip().split("\n\n")
        beginnings = ["The dog", "The dog", "One day, a girl", "One day, a girl"]
        assert list(map(str.startswith, texts, beginnings)) == [True] * 4
    main([str(folder)])  # as its help says
    assert capsys.readouterr().out == continue_texts(*load(folder.parent), [PROMPT], 200, 0.8, 0.95)[0] + "\n"


def test_cards_show_three_samples_or_why_there_are_none(run, tmp_path):
    causal = (run("--ffn", "gelu") / "model" / "README.md").read_text()
    assert causal.count("\n> **") == 3
    gaps = (run("--family", "roberta") / "model" / "README.md").read_text()
    assert len(re.findall(r"\| .* ___.* \| .* \d+%, .* \d+%, .* \d+% \|\n", gaps)) == 3
    for family, why in (("gpt_neo", "the prompt has"), ("roberta", "No mask_token")):
        short = load_config(None, ["--family", family], small_run(tmp_path, data={"block_size": 8}))
        tokenizer = prepare_data(short).tokenizer
        network = build(short, len(tokenizer), special_token_ids(tokenizer))
        assert f"None: {why}" in sample_section(network, tokenizer, FAMILIES[family].objective)


@pytest.fixture
def silent(caplog) -> Iterator[None]:
    """Nothing that transformers says, as other warnings, may pass."""
    disable_progress_bar()
    logger = logging.getLogger("transformers")
    logger.addHandler(caplog.handler)
    yield
    logger.removeHandler(caplog.handler)
    assert not [record.message for record in caplog.records if record.name.startswith("transformers")]


@pytest.mark.usefixtures("silent")
def test_prompts_of_a_batch_are_continued_as_alone(run):
    model, tokenizer = load(run("--ffn", "gelu"))
    prompts = ["The", PROMPT]
    inputs = tokenizer(prompts, padding=True, return_tensors="pt")
    together = model.generate(**inputs, max_new_tokens=12)
    for prompt, row in zip(prompts, together, strict=True):
        alone = model.generate(**tokenizer(prompt, return_tensors="pt"), max_new_tokens=12)
        assert tokenizer.decode(row, True) == tokenizer.decode(alone[0], True)
    for temperature in (0, 1e-4):  # so near to 0 that nothing is drawn
        texts = continue_texts(model, tokenizer, prompts, 12, temperature)
        assert texts == [tokenizer.decode(row, True) for row in together]


def test_text_ends_at_eos_and_within_the_positions(run):
    model, tokenizer = load(run("--ffn", "gelu"))
    settings = model.generation_config
    assert (settings.bos_token_id, settings.eos_token_id, settings.pad_token_id) == (1, 2, 0)
    inputs = tokenizer(PROMPT, return_tensors="pt")
    assert model.generate(**inputs).shape[1] <= 64 == tokenizer.model_max_length
    with torch.no_grad():  # the likeliest token of every place is now eos
        model.lm_head.weight[2] = 100 * model.transformer.ln_f.bias + model.lm_head.weight[2]
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.copy_(model.lm_head.weight[2])
    assert model.generate(**inputs)[0].tolist() == [*inputs["input_ids"][0].tolist(), 2]


@pytest.mark.usefixtures("silent")
def test_the_code_that_a_card_shows_runs(run, capsys):
    folder = run("--ffn", "gelu") / "model"
    text = (folder / "README.md").read_text(encoding="utf-8")
    (code,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "pipeline(" in code]
    exec(re.sub(r'^folder = ".*"$', f"folder = {str(folder)!r}", code, flags=re.MULTILINE), {})
    shown = [line for line in capsys.readouterr().out.splitlines() if PROMPT in line]
    assert [line.startswith(PROMPT) for line in shown] == [True, True]
