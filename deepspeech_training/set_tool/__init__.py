"""Data sets made of data sets: converted, merged, sampled, split, augmented."""
