"""What bin/bench_scaling.py is made of: turns in processes of their own, what they measure, and the projection."""
