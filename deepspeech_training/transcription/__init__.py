"""Recordings and streams to text, with the times of words, by any model that `runtimes` opens."""
