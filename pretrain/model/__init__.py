"""The model of a run, its objective and what a step of it costs.

``build`` makes it, ``objective`` puts model and loss into one module, ``linear_cross_entropy`` is that loss.
"""
