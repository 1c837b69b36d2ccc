"""What ``study run`` was typed, and the study that it names."""

from __future__ import annotations

from dataclasses import replace

from base.config_input import note_on_one
from base.errors import UsageError
from pretrain.train import use_device
from slurm.arguments import SubmitArgs, flags, overrides
from slurm.study.study import Changes, load_study


def launch(options: SubmitArgs) -> int:
    """Do what ``ffn-ablations study run`` is asked to; returns 1 if a local study has cells left at the end.

    Args:
        options: What was typed.

    Raises:
        UsageError: For a faulty study or preset, missing data, or a study that another command submits.
    """
    use_device(options.device)
    if note := note_on_one(" ".join(options.seeds)):
        print(note)
    changes = Changes(variants=options.variants or (), add=options.add, seeds=options.seeds)
    study = load_study(options.study, overrides(options), options.trust_remote_code, changes=changes)
    # So that a report names no command that computes on a login node, or trains on other texts.
    typed = " ".join([study.typed, *flags(options, "texts", "validation_texts", "txt_split", "runs_dir")])
    if options.cluster == "slurm":
        typed = " ".join([typed, "--cluster slurm", *flags(options, "preset")])
    study = replace(study, typed=typed, of_cells=" ".join(flags(options, "seeds", "variants", "add")))
    if options.texts and study.config.backbones:
        raise UsageError("--texts has no effect on backbones, as nothing is pretrained; leave it out")
    study.config.evaluation.refuse_unnamed_task_files(options.include_path, options.study)

    if options.dry_run:
        from slurm.study_dry_run import dry_run  # which has what a mistake in a study is told without

        return dry_run(study, options)
    from slurm.run_study import run_study  # torch

    return run_study(study, options)
