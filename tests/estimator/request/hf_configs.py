"""The keys of public `config.json` files that matter here, and the parameters their checkpoints hold."""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

# (model_type and shape, parameters of the published checkpoint as its safetensors index or model card counts them)
CHECKPOINTS: dict[str, tuple[Config, int]] = {
    "meta-llama/Meta-Llama-3-8B": (
        {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
         "tie_word_embeddings": False},
        8_030_261_248,
    ),
    "mistralai/Mistral-7B-v0.1": (
        {"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "max_position_embeddings": 32768,
         "tie_word_embeddings": False},
        7_241_732_096,
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        {"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
         "vocab_size": 32000, "max_position_embeddings": 32768, "tie_word_embeddings": False},
        46_702_792_704,
    ),
    "Qwen/Qwen2-7B": (
        {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
         "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 131072,
         "tie_word_embeddings": False},
        7_615_616_512,
    ),
    "Qwen/Qwen3-8B": (
        {"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32,
         "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
         "max_position_embeddings": 40960, "tie_word_embeddings": False},
        8_190_735_360,
    ),
    "Qwen/Qwen3-30B-A3B": (
        {"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
         "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128,
         "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
         "vocab_size": 151936, "max_position_embeddings": 40960, "tie_word_embeddings": False},
        30_532_122_624,
    ),
    "Qwen/Qwen1.5-MoE-A2.7B": (
        {"model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "moe_intermediate_size": 1408,
         "shared_expert_intermediate_size": 5632, "num_attention_heads": 16, "num_hidden_layers": 24,
         "num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4, "decoder_sparse_step": 1,
         "vocab_size": 151936, "max_position_embeddings": 8192, "tie_word_embeddings": False},
        14_315_784_192,
    ),
    "google/gemma-7b": (
        {"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_attention_heads": 16,
         "num_hidden_layers": 28, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000,
         "max_position_embeddings": 8192},
        8_537_680_896,
    ),
    "google/gemma-2-9b": (
        {"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336, "num_attention_heads": 16,
         "num_hidden_layers": 42, "num_key_value_heads": 8, "head_dim": 256, "vocab_size": 256000,
         "max_position_embeddings": 8192},
        9_241_705_984,
    ),
    "google/gemma-3-1b-pt": (
        {"model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_attention_heads": 4,
         "num_hidden_layers": 26, "num_key_value_heads": 1, "head_dim": 256, "vocab_size": 262144,
         "max_position_embeddings": 32768},
        999_885_952,
    ),
    "microsoft/Phi-3-mini-4k-instruct": (
        {"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32064, "max_position_embeddings": 4096,
         "tie_word_embeddings": False},
        3_821_079_552,
    ),
    "microsoft/phi-2": (
        {"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32,
         "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 51200, "max_position_embeddings": 2048,
         "tie_word_embeddings": False},
        2_779_683_840,
    ),
    "openai-community/gpt2": (
        {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_ctx": 1024,
         "vocab_size": 50257},
        124_439_808,
    ),
    "EleutherAI/gpt-neox-20b": (
        {"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_attention_heads": 64,
         "num_hidden_layers": 44, "vocab_size": 50432, "max_position_embeddings": 2048, "tie_word_embeddings": False},
        20_554_567_680,
    ),
    "facebook/opt-1.3b": (
        {"model_type": "opt", "hidden_size": 2048, "ffn_dim": 8192, "num_attention_heads": 32, "num_hidden_layers": 24,
         "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 2048},
        1_315_758_080,
    ),
    "bigscience/bloom-7b1": (
        {"model_type": "bloom", "n_embed": 4096, "num_attention_heads": 32, "n_layer": 30, "vocab_size": 250880,
         "seq_length": 2048},
        7_069_016_064,
    ),
    "tiiuae/falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32,
         "multi_query": True, "new_decoder_architecture": False, "parallel_attn": True, "bias": False,
         "vocab_size": 65024},
        6_921_720_704,
    ),
    "mosaicml/mpt-7b": (
        {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "expansion_ratio": 4,
         "max_seq_len": 2048, "no_bias": True, "vocab_size": 50432},
        6_649_286_656,
    ),
    "google-bert/bert-base-uncased": (
        {"model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
         "num_hidden_layers": 12, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2},
        109_482_240,
    ),
    "FacebookAI/roberta-base": (
        {"model_type": "roberta", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
         "num_hidden_layers": 12, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1},
        124_645_632,
    ),
    "distilbert/distilbert-base-uncased": (
        {"model_type": "distilbert", "dim": 768, "hidden_dim": 3072, "n_heads": 12, "n_layers": 6,
         "vocab_size": 30522, "max_position_embeddings": 512},
        66_362_880,
    ),
    "microsoft/deberta-v3-base": (
        {"model_type": "deberta-v2", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
         "num_hidden_layers": 12, "vocab_size": 128100, "max_position_embeddings": 512, "type_vocab_size": 0},
        184_000_000,  # the card: 86M in the layers and 98M in the vocabulary
    ),
    "google-t5/t5-large": (
        {"model_type": "t5", "d_model": 1024, "d_ff": 4096, "d_kv": 64, "num_heads": 16, "num_layers": 24,
         "num_decoder_layers": 24, "n_positions": 512, "vocab_size": 32128, "is_encoder_decoder": True},
        737_668_096,
    ),
    "google/vit-base-patch16-224": (
        {"model_type": "vit", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12,
         "num_hidden_layers": 12, "image_size": 224, "patch_size": 16, "num_channels": 3},
        86_567_656,
    ),
    "deepseek-ai/DeepSeek-V3": (
        {"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
         "num_attention_heads": 128, "num_key_value_heads": 128, "num_hidden_layers": 61, "n_routed_experts": 256,
         "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
         "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "vocab_size": 129280, "max_position_embeddings": 163840, "tie_word_embeddings": False},
        671_026_419_200,
    ),
    "deepseek-ai/DeepSeek-V2-Lite": (
        {"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
         "num_attention_heads": 16, "num_key_value_heads": 16, "num_hidden_layers": 27, "n_routed_experts": 64,
         "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
         "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
         "vocab_size": 102400, "max_position_embeddings": 163840, "tie_word_embeddings": False},
        15_706_484_224,
    ),
    "databricks/dbrx-base": (
        {"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32768,
         "attn_config": {"kv_n_heads": 8}, "vocab_size": 100352, "tie_word_embeddings": False,
         "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        131_596_523_520,
    ),
    "bigcode/starcoder2-7b": (
        {"model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_attention_heads": 36,
         "num_hidden_layers": 32, "num_key_value_heads": 4, "vocab_size": 49152, "max_position_embeddings": 16384},
        7_173_923_840,
    ),
}  # fmt: skip
