"""The sections of the report in Markdown: one file each, made from an analysis and nothing else."""
