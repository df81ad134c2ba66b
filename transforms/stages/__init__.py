"""Beam wiring: the six stages that turn inputs into a sealed build."""
