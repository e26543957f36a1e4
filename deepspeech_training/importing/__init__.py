"""From a corpus as it is published to CSV files and audio that can be trained on: the shared parts of the importers."""
