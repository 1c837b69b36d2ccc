"""What the parts of this project cost, measured: ``python -m benchmarks.NAME`` in the checkout."""
