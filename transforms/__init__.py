"""The Beam transforms of a build, one room for each concern; `records` needs no Beam."""
