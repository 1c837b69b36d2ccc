"""Read scores of other tools into rows: tables of any shape, and result files of lm-eval."""
