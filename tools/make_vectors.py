#!/usr/bin/env python3
"""Makes the test vectors of tests/vectors: what Ebb's numbers are held against.

    tools/make_vectors.py --out tests/vectors --tokenizer DIR PART...

PART is any of: tokenizer chat text vision real gguf llamacpp. All strings, prompts, model shapes and seeds come from
the inputs file, so another inputs file makes another, unrelated set. Everything runs in float32 on the CPU.
Needs torch, transformers, tokenizers, safetensors, gguf, pillow and numpy; versions are in tests/vectors/README.md.
"""

import argparse
import importlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from vectors import common  # noqa: E402 (needs the path above)


def need(parser, value, option, part):
    if not value:
        parser.error(f"{part} needs {option}")
    return value


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("parts", nargs="+", metavar="PART")
    p.add_argument("--inputs", default=os.path.join(HERE, "vectors", "inputs.json"))
    p.add_argument("--out", required=True)
    p.add_argument("--tokenizer", help="folder of Gemma 3's tokenizer.json and tokenizer_config.json, plain or .xz")
    p.add_argument("--gguf", help="the real 270M GGUF (real, llamacpp)")
    p.add_argument("--llama-bin", help="folder of llama.cpp's tools (gguf, llamacpp)")
    p.add_argument("--text-file", default="/usr/share/common-licenses/GPL-3", help="text for the perplexity")
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    with open(a.inputs, encoding="utf-8") as f:
        inputs = json.load(f)
    makers = {
        "tokenizer": ("tokenizer", lambda m: m.make(inputs, a.out)),
        "chat": ("chat", lambda m: m.make(inputs, a.out)),
        "text": ("text", lambda m: m.make(inputs, a.out)),
        "vision": ("vision", lambda m: m.make(inputs, a.out)),
        "real": ("real_270m", lambda m: m.make(inputs, a.out, need(p, a.gguf, "--gguf", "real"),
                                               text_file=a.text_file if inputs.get("perplexity") else None)),
        "gguf": ("gguf_twins", lambda m: m.make(inputs, a.out, need(p, a.llama_bin, "--llama-bin", "gguf"))),
        "llamacpp": ("llamacpp", lambda m: m.make(inputs, a.out, need(p, a.gguf, "--gguf", "llamacpp"),
                                                  need(p, a.llama_bin, "--llama-bin", "llamacpp"), a.text_file)),
    }
    for part in a.parts:
        if part not in makers:
            p.error(f"unknown part {part!r}; known: {' '.join(makers)}")
    common.tokenizer_dir = a.tokenizer
    os.makedirs(a.out, exist_ok=True)
    for part in a.parts:
        print(f"== {part}", flush=True)
        module, make = makers[part]
        if part not in ("tokenizer", "chat"):
            import torch
            torch.set_num_threads(a.threads)
        make(importlib.import_module(f"vectors.{module}"))


if __name__ == "__main__":
    main()
