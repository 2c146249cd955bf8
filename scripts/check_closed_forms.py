"""How far are the closed forms of transformers from the same models counted operator by operator?

Run by the project in the environment of `count_inventories.py`:

    python scripts/check_closed_forms.py

Every model is built from the shape in the facts, without weights, on the meta device, with eager attention (so that the
scores are seen), and one sequence is counted at two lengths: what grows with the square of the length is the scores.
Printed as a table: counted over closed form, for parameters, matrix work and values kept for the backward pass. What
explains the differences is in docs/memory.md.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks_db.models import ModelFacts, models  # noqa: E402
from estimator.architectures.counting import count  # noqa: E402
from estimator.architectures.transformer import work  # noqa: E402
from scripts.inventory_models.task import Inputs  # noqa: E402

LENGTH = 512
BUILT = {
    "bert-base": "Bert",
    "bert-large": "Bert",
    "gpt2-124m": "GPT2",
    "gpt2-1558m": "GPT2",
    "llama3.2-1b": "Llama",
    "llama3-8b": "Llama",
    "qwen3-0.6b": "Qwen3",
    "mistral-7b": "Mistral",
}
"""Models of the facts and the classes of transformers that build them."""


def config(kind: str, facts: ModelFacts) -> Any:
    """The configuration of transformers that means this shape."""
    transformers = import_module("transformers")
    common = {"vocab_size": int(facts.vocab or 0), "attn_implementation": "eager", "use_cache": False}
    if kind == "GPT2":
        sizes = {"n_embd": int(facts.hidden or 0), "n_layer": int(facts.layers or 0), "n_head": int(facts.heads or 0)}
        return transformers.GPT2Config(**common, **sizes, n_positions=int(facts.max_seq_len or 1024))
    sizes = {
        "hidden_size": int(facts.hidden or 0),
        "num_hidden_layers": int(facts.layers or 0),
        "num_attention_heads": int(facts.heads or 0),
        "intermediate_size": int(facts.ffn_hidden or 0),
        "tie_word_embeddings": bool(facts.tied_embeddings),
    }
    if kind != "Bert":
        sizes |= {"num_key_value_heads": int(facts.kv_heads or facts.heads or 0)}
        sizes |= {"head_dim": int(facts.head_dim)} if facts.head_dim else {}
    return getattr(transformers, f"{kind}Config")(**common, **sizes)


def inputs(length: int) -> Inputs:
    """Token numbers, and the mask made beforehand: the library looks into it, which the meta device cannot."""

    def make(batch: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        torch = import_module("torch")
        mask = torch.empty(batch, 1, length, length, device="meta")
        return (torch.empty(batch, length, dtype=torch.long, device="meta"),), {"attention_mask": mask}

    return make


def main() -> None:
    """Print the table, one line a model."""
    torch, transformers = import_module("torch"), import_module("transformers")
    warnings.simplefilter("ignore")
    print("| model | parameters | forward | backward/forward | kept but scores | scores kept, a score |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, kind in BUILT.items():
        facts = models()[name]
        with torch.device("meta"):
            head = "ForMaskedLM" if kind == "Bert" else "LMHeadModel" if kind == "GPT2" else "ForCausalLM"
            model = getattr(transformers, f"{kind}{head}")(config(kind, facts))
            counted = count(model, inputs(LENGTH), name=name, described=f"{LENGTH} tokens")
            half = count(model, inputs(LENGTH // 2), name=name, described=f"{LENGTH // 2} tokens")
        closed = work(facts, seq_len=float(LENGTH), attention="eager")
        kept = 4.0 * half.stored_values - counted.stored_values  # the part in proportion to the length
        scores = counted.stored_values - kept
        causal = 0.5 if kind != "Bert" else 1.0  # the closed form spends half of the scores on a causal model
        forward = counted.forward_flops - counted.attention_flops * (1.0 - causal)
        print(
            f"| {name} | {counted.params / float(closed.params):.3f} "
            f"| {forward / float(closed.matmul_flops + closed.attention_flops):.3f} "
            f"| {counted.backward_flops / counted.forward_flops:.2f} "
            f"| {kept / float(closed.stored_values * (1.0 + closed.single_share) + closed.logits_values):.2f} "
            f"| {scores / counted.softmax_values:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
