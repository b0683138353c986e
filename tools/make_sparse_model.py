#!/usr/bin/env python3
"""Writes a GGUF file of a true Gemma 3 shape whose tensor data is a hole: full size by name, some KiB of disk.

  tools/make_sparse_model.py 12B q4_k_m 12b.gguf
  ebb plan -m 12b.gguf -dev fake:24GiB

Enough for everything that reads headers only; the vocabulary has a handful of pieces, and all weights are zero.
"""

import argparse
import struct
import sys

# Source: Gemma 3's configurations. hidden, ffn, query heads, KV heads, head size, layers, window, context.
SHAPES = {
    "270M": (640, 2048, 4, 1, 256, 18, 512, 32768),
    "1B": (1152, 6912, 4, 1, 256, 26, 512, 32768),
    "4B": (2560, 10240, 8, 4, 256, 34, 1024, 131072),
    "12B": (3840, 15360, 16, 8, 256, 48, 1024, 131072),
    "27B": (5376, 21504, 32, 16, 128, 62, 1024, 131072),
}
VOCABULARY = 262144
ALIGNMENT = 32

# name: (id in the file, values of a block, bytes of a block)
TYPES = {
    "f32": (0, 1, 4),
    "f16": (1, 1, 2),
    "q4_0": (2, 32, 18),
    "q5_0": (6, 32, 22),
    "q8_0": (8, 32, 34),
    "q4_k": (12, 256, 144),
    "q6_k": (14, 256, 210),
    "bf16": (30, 1, 2),
}
MIXES = ("f16", "bf16", "q8_0", "q4_0", "q4_k_m")


def more_bits(layer, layers):
    """The layers whose values and down projections a Q4_K_M file keeps in six bits."""
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def matrix_type(mix, name, layer, layers, cols):
    if mix in ("f16", "bf16", "q8_0"):
        return mix
    if name == "token_embd":
        wanted = "q6_k"
    elif mix == "q4_0":
        return "q4_0"
    else:
        wanted = "q6_k" if name in ("attn_v", "ffn_down") and more_bits(layer, layers) else "q4_k"
    if cols % TYPES[wanted][1] == 0:
        return wanted
    return {"q6_k": "q8_0", "q4_k": "q5_0"}[wanted]  # rows that are no whole blocks of 256


def tensors(shape, mix):
    """(name, type, dimensions with the row's length first), in file order."""
    hidden, ffn, q_heads, kv_heads, head_dim, layers, _, _ = shape
    yield "token_embd.weight", matrix_type(mix, "token_embd", 0, layers, hidden), (hidden, VOCABULARY)
    yield "output_norm.weight", "f32", (hidden,)
    matrices = {
        "attn_q": (hidden, q_heads * head_dim),
        "attn_k": (hidden, kv_heads * head_dim),
        "attn_v": (hidden, kv_heads * head_dim),
        "attn_output": (q_heads * head_dim, hidden),
        "ffn_gate": (hidden, ffn),
        "ffn_up": (hidden, ffn),
        "ffn_down": (ffn, hidden),
    }
    norms = {
        "attn_norm": hidden,
        "attn_q_norm": head_dim,
        "attn_k_norm": head_dim,
        "post_attention_norm": hidden,
        "ffn_norm": hidden,
        "post_ffw_norm": hidden,
    }
    for layer in range(layers):
        for name, (cols, rows) in matrices.items():
            yield f"blk.{layer}.{name}.weight", matrix_type(mix, name, layer, layers, cols), (cols, rows)
        for name, cols in norms.items():
            yield f"blk.{layer}.{name}.weight", "f32", (cols,)


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata(size, shape):
    hidden, ffn, q_heads, kv_heads, head_dim, layers, window, context = shape
    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>", "▁a", "b"]
    numbers = {
        "block_count": layers, "embedding_length": hidden, "feed_forward_length": ffn, "context_length": context,
        "attention.head_count": q_heads, "attention.head_count_kv": kv_heads, "attention.key_length": head_dim,
        "attention.value_length": head_dim, "attention.sliding_window": window,
    }
    entries = [text("general.architecture") + struct.pack("<I", 8) + text("gemma3"),
               text("general.name") + struct.pack("<I", 8) + text(f"gemma-3-{size.lower()}-sparse"),
               text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama")]
    entries += [text(f"gemma3.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    entries.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(pieces)) + b"".join(map(text, pieces)))
    entries.append(text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, len(pieces)) + bytes(4 * len(pieces)))
    kinds = [3, 3, 3, 2, 3, 3, 1, 1]
    entries.append(text("tokenizer.ggml.token_type") + struct.pack(f"<IIQ{len(kinds)}i", 9, 5, len(kinds), *kinds))
    return entries


def padded(count):
    return -(-count // ALIGNMENT) * ALIGNMENT


def write(size, mix, path):
    shape = SHAPES[size]
    infos, offset = [], 0
    for name, kind, dims in tensors(shape, mix):
        number, values, block_bytes = TYPES[kind]
        count = 1
        for dim in dims:
            count *= dim
        infos.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset))
        offset += padded(count // values * block_bytes)
    entries = metadata(size, shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(entries)) + b"".join(entries) + b"".join(infos)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(padded(len(head)) + offset)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SHAPES)
    parser.add_argument("mix", choices=MIXES)
    parser.add_argument("file")
    args = parser.parse_args()
    write(args.size, args.mix, args.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
