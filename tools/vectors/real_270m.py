"""The real Gemma 3 270M (base) GGUF, dequantised to float32 and run with transformers.

Weights: every tensor of the GGUF goes through gguf-py's dequantize (exact in float32). Norm vectors of the file are
1 + w; transformers wants w, so 1 is subtracted, and it is checked that 1 + w gives the file's value back exactly.
"""

import json
import math
import os
import time

import numpy as np
import torch

from . import common

CONFIG = dict(
    vocab_size=262144, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
    num_key_value_heads=1, head_dim=256, sliding_window=512, max_position_embeddings=32768,
    query_pre_attn_scalar=256, rope_parameters={
        "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
)
NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj", "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "post_ffw_norm": "post_feedforward_layernorm",
}


def hf_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    _, n, part, _ = name.split(".")
    return f"model.layers.{n}.{NAMES[part]}.weight"


def dequantised(path, reader=None):
    """Yields (hf name, float32 array) for each tensor of a gemma3 text GGUF; norms come without the file's +1."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    reader = reader or GGUFReader(path)
    for t in reader.tensors:
        value = np.asarray(dequantize(t.data, t.tensor_type), dtype=np.float32)
        value = value.reshape([int(n) for n in reversed(t.shape)])
        if t.name.endswith("norm.weight"):
            w = value - np.float32(1)
            assert np.array_equal(np.float32(1) + w, value), f"{t.name}: 1 + (x - 1) is not x"
            value = w
        yield hf_name(t.name), value


def load(path):
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig
    config = Gemma3TextConfig(**CONFIG)
    config._attn_implementation = "eager"
    with torch.device("meta"):
        model = Gemma3ForCausalLM(config)
    model.to_empty(device="cpu")
    state = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in dequantised(path)}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing, unexpected = model.load_state_dict(state, strict=False, assign=True)
    assert not missing and not unexpected, (missing, unexpected)
    # buffers that are computed, not stored
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
    model.model.rotary_emb = Gemma3RotaryEmbedding(config)
    model.model.embed_tokens.embed_scale = torch.tensor(config.hidden_size ** 0.5)
    return model.eval()


def logprobs_of(model, hidden, targets, block=64):
    """Natural-log probability of targets[i] given row i of hidden, float64 log-sum-exp over float32 logits."""
    out = []
    for a in range(0, len(targets), block):
        logits = model.lm_head(hidden[a:a + block])
        lse = torch.logsumexp(logits.double(), -1)
        out += (logits.gather(1, targets[a:a + block, None])[:, 0].double() - lse).tolist()
    return out


@torch.no_grad()
def run_prompt(model, ids, n_greedy):
    x = torch.tensor([ids])
    out = model.model(input_ids=x, use_cache=True)
    hidden, cache = out.last_hidden_state[0], out.cache
    prompt_logprobs = logprobs_of(model, hidden[:-1], x[0, 1:]) if len(ids) > 1 else []
    logits = model.lm_head(hidden[-1:])[0]
    top = torch.topk(logits, 20)
    row = {
        "ids": ids,
        "last_top20": [[int(i), round(float(v), 6)] for i, v in zip(top.indices, top.values)],
        "last_logsumexp": float(torch.logsumexp(logits.double(), -1)),
        "prompt_logprobs": [round(v, 6) for v in prompt_logprobs],
    }
    greedy, margins = [], []
    for step in range(n_greedy):
        best = torch.topk(logits, 2)
        greedy.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
        if step + 1 < n_greedy:
            out = model.model(input_ids=torch.tensor([[greedy[-1]]]), cache=cache, use_cache=True)
            logits = model.lm_head(out.last_hidden_state[0, -1:])[0]
    row["greedy"] = greedy
    row["greedy_margins"] = margins
    small = [i for i, m in enumerate(margins) if m < 0.05]
    row["excusable_from"] = small[0] if small else None
    return row


@torch.no_grad()
def perplexity(model, tokens, n_ctx, bos=2):
    """llama.cpp's definition: windows of n_ctx tokens (the file's own first token of each window is replaced by <bos>),
    predictions made at positions n_ctx/2 .. n_ctx-2 are scored, the rest of the file after the last full window is dropped."""
    total, count, per_chunk = 0.0, 0, []
    for c in range(len(tokens) // n_ctx):
        chunk = list(tokens[c * n_ctx:(c + 1) * n_ctx])
        chunk[0] = bos
        x = torch.tensor([chunk])
        hidden = model.model(input_ids=x, use_cache=False).last_hidden_state[0]
        first = n_ctx // 2
        lp = logprobs_of(model, hidden[first:n_ctx - 1], x[0, first + 1:])
        per_chunk.append({"chunk": c, "nll_sum": -sum(lp), "scored": len(lp)})
        total -= sum(lp)
        count += len(lp)
    return {"n_ctx": n_ctx, "chunks": per_chunk, "scored": count, "nll": total / count, "perplexity": math.exp(total / count)}


def make(inputs, out_dir, gguf_path, n_greedy=48, text_file=None):
    from tokenizers import Tokenizer
    tok = Tokenizer.from_str(json.dumps(common.tokenizer_json()))
    model = load(gguf_path)
    rows = []
    for name, prompt in inputs["prompts_270m"]:
        t0 = time.time()
        ids = tok.encode(prompt, add_special_tokens=True).ids
        row = {"name": name, "prompt": prompt, **run_prompt(model, ids, n_greedy)}
        # the same prompt with the embedding scale rounded to bf16 (25.25 instead of 25.298221)
        model.model.embed_tokens.embed_scale = torch.tensor(25.25)
        other = run_prompt(model, ids, 1)
        model.model.embed_tokens.embed_scale = torch.tensor(640 ** 0.5)
        row["bf16_scale"] = {"last_top20": other["last_top20"], "last_logsumexp": other["last_logsumexp"]}
        row["greedy_text"] = tok.decode(row["greedy"], skip_special_tokens=False)
        rows.append(row)
        print(f"{name}: {len(ids)} tokens, {time.time() - t0:.1f} s, excusable from {row['excusable_from']}: "
              f"{row['greedy_text'][:70]!r}", flush=True)
    common.write_jsonl(os.path.join(out_dir, "gemma3-270m", "prompts.jsonl"), rows)
    if text_file:
        text = open(text_file, encoding="utf-8").read()
        tokens = tok.encode(text, add_special_tokens=True).ids
        result = {
            "text": os.path.basename(text_file), "text_sha256": common.sha256_file(text_file), "tokens": len(tokens),
            "tokens_sha256_i32le": common.sha256(np.array(tokens, dtype="<i4").tobytes()),
            "hf_float32": [perplexity(model, tokens, n) for n in (512, 2048)],
        }
        model.model.embed_tokens.embed_scale = torch.tensor(25.25)
        result["hf_float32_bf16_scale"] = [perplexity(model, tokens, 512)]
        for key in ("hf_float32", "hf_float32_bf16_scale"):
            for r in result[key]:
                print(key, r["n_ctx"], len(r["chunks"]), r["perplexity"], flush=True)
        common.write_json(os.path.join(out_dir, "gemma3-270m", "perplexity.json"), result)
