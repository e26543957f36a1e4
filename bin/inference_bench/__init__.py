"""Parts of bench_inference.py."""
