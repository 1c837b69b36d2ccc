"""What the page on Python and the notebook show, executed."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

HERE = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": ""}


def environment(repository: Path) -> dict[str, str]:
    return {name: value for name, value in (os.environ | HERE).items() if value} | {
        "PYTHONPATH": str(repository)
    }


@pytest.mark.slow
def test_the_code_of_the_page_runs_in_its_order(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == page.count("```python") - 1 >= 8  # one says no-run
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=tmp_path, env=environment(repository), capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "On held-out loss" in done.stdout or "No variant was shown to differ" in done.stdout
    numbers = json.loads((tmp_path / "report" / "report.json").read_text())
    assert numbers["variants"] == ["gelu", "swish"]
    assert len(list((tmp_path / "runs" / "default").glob("*/*/*/model"))) == 6 + 6  # the six on texts


SMALLER = {
    '"data.num_stories": 2000, "optim.max_steps": 100': '"data.num_stories": 800, "optim.max_steps": 40',
    "paradigm=10)": "paradigm=2, pair_tasks=['wh_gap'])",
}
"""What the notebook trains and scores for minutes, and what is enough to see its objects."""


def executed(repository: Path, folder: Path) -> nbformat.NotebookNode:
    """The quickstart, run from a folder in which there is nothing."""
    # With a new HOME, matplotlib makes a list of fonts, and says so on stderr where that takes 5 seconds.
    importlib.import_module("matplotlib.font_manager")
    notebook = nbformat.read(repository / "examples" / "quickstart.ipynb", as_version=4)
    for cell in notebook.cells:
        for shown, small in SMALLER.items():
            cell.source = cell.source.replace(shown, small)
    client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    return client.execute(env=environment(repository))


def outputs(notebook: nbformat.NotebookNode, word: str) -> list[nbformat.NotebookNode]:
    """What the one cell printed or showed that has a word."""
    (cell,) = [x for x in notebook.cells if x.cell_type == "code" and word in x.source]
    return cell.outputs


@pytest.mark.ci
def test_the_notebook_runs_from_top_to_bottom_and_shows_its_objects(repository: Path, tmp_path: Path) -> None:
    notebook = executed(repository, tmp_path)
    (comparison,) = outputs(notebook, "comparison = ffa.compare(scores")
    assert "<table" in comparison.data["text/html"]
    assert "<code>spline-kan</code> is worse than <code>gelu</code>" in comparison.data["text/html"]
    (statement,) = outputs(notebook, "The held-out loss of squash minus that of gelu")
    assert re.search(r"is [+-]\d\.\d{3} nats, between [+-]\d\.\d{3} and [+-]\d\.\d{3} at 95%", statement.text)
    for word in ("comparison.plot();", "plt.subplots"):
        (picture,) = outputs(notebook, word)
        assert "image/png" in picture.data
    *bars, runs = outputs(notebook, 'ffn="mine.py:SPEC"')
    assert runs.data["text/html"].count("squash") >= 6  # a name and a folder for each seed
    shown = "".join(bar.text for bar in bars)
    assert set(re.findall(r"(\d) of 3, squash, seed \1: 100%", shown)) == {"1", "2", "3"}
    assert re.findall(r"(\d) of 3, squash, seed \1: held-out loss \d", shown) == ["1", "2", "3"]
    assert "Once upon a time" in outputs(notebook, "generate")[-1].text


def test_the_notebook_is_kept_without_its_outputs(repository: Path) -> None:
    notebook = nbformat.read(repository / "examples" / "quickstart.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code)
