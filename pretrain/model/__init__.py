"""The model of a run, its objective and what a step of it costs."""
