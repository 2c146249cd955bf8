"""The facts: GPUs, models, measured throughputs and whole runs, each with its source."""
