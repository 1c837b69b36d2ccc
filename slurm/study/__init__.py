"""What a study's file says, and the cells that it makes.

To be read in this order: ``study_config`` (the file), ``ffn_levels`` and ``tune_section`` (two of its
sections), ``cells`` (what a worker gets), ``study`` (from one to the other, and what is due).
"""
