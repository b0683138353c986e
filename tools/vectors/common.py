"""What all makers share: files, hashes, versions, the tokenizer."""

import hashlib
import json
import lzma
import os

tokenizer_dir = None  # set by the main program: a folder with the real tokenizer.json and tokenizer_config.json


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def sha256_file(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            h.update(block)
    return h.hexdigest()


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)
        f.write("\n")


def write_jsonl(path, rows):
    """One JSON object a line. A path that ends in .xz is compressed."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = "".join(json.dumps(r, ensure_ascii=True, separators=(",", ":")) + "\n" for r in rows)
    data = text.encode("ascii")
    if path.endswith(".xz"):
        data = lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)
    with open(path, "wb") as f:
        f.write(data)


def readable(folder):
    """safetensors writes files for their owner alone; these are for everybody."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            os.chmod(path, 0o644)


def real_file(name):
    """A JSON file of the real tokenizer, plain or compressed by xz."""
    if tokenizer_dir is None:
        raise SystemExit("name the folder of Gemma 3's tokenizer.json and tokenizer_config.json with --tokenizer")
    path = os.path.join(tokenizer_dir, name)
    if os.path.exists(path):
        with open(path, "rb") as f:
            return json.loads(f.read())
    with lzma.open(path + ".xz") as f:
        return json.loads(f.read())


def tokenizer_json():
    return real_file("tokenizer.json")


def tokenizer_config():
    return real_file("tokenizer_config.json")


def is_control(content):
    """Control pieces: only the template may emit them (never message text)."""
    return content in (
        "<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "[multimodal]", "<start_of_turn>", "<end_of_turn>",
        "<start_of_image>", "<end_of_image>", "<image_soft_token>",
    ) or (content.startswith("<unused") and content.endswith(">"))
