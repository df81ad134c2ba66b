"""The embedded demo corpus: real HTML made without a network (`python -m pipelines.demo.corpus OUT_DIR`)."""
