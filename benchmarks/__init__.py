"""Speed as a ratio to the peers, on one machine, in alternating runs: ``python -m benchmarks``."""
