"""Models that no package of the registries defines as one network, written down from their published shapes.

One room a field. `tasks()` of each yields what `scripts/count_inventories.py` counts. The networks are ours, reduced to
what decides the work of a training step (layers, widths, strides, shared heads); initial values, data loading and
post-processing are left out. Where a network is to be had from timm, torchvision, torchaudio, transformers or diffusers
it is built from there.
"""
