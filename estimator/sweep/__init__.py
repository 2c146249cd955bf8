"""Many plans at once: a grid of requests, evaluated on all cores or on an existing cluster, kept as Parquet.

From the bottom up: `spec` (which cells has the grid), `cells` (what is the answer to one), `table` (how it is written),
`parts` (what survives a kill), `engines` (who works the cells out) and `run` (all of it in order).
"""
