"""Beam wiring: the six stages that turn inputs into a sealed build, over the functions of `transforms.records` and
`shardwright`.
"""
