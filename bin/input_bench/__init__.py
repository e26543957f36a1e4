"""The parts of `bench_input.py`."""
