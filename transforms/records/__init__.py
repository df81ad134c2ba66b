"""From the bytes of an input file to its rows."""
