"""The plain ways: one script each, with the arguments of `benchmarks.peers.job`."""
