"""What is asked: a workload, its fields, quantities, files, model configs and trainer configs."""
