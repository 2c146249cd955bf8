"""Who asks: a data scientist in a notebook. The same call that the command line and the HTTP API make.

Run: python examples/library.py
"""

from estimator import Workload, plan

document = plan(Workload(model="llama3-8b", method="lora", tokens="50M", seq_len=2048, global_batch=64))
for option in document.plans[:3]:
    print(f"{option.cloud:>6} {option.instance_type:<24} {option.hours.p50:6.2f} h  ${option.cost_usd.p50:8.2f}")
