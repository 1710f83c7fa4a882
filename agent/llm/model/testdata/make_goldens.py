#!/usr/bin/env python3
"""Makes the small goldens of the tests of agent/llm/model.

    python make_goldens.py            # the tiny models beside this file
    python make_goldens.py --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf
    python make_goldens.py --long     # long.json, from the existing tiny models
    python make_goldens.py --scores   # the tiny reward models beside this file

Needs transformers 5, torch 2.11, accelerate, safetensors and gguf from PyPI. Every tiny
model gets a folder: config.json in one of the two layouts of transformers,
model.safetensors, golden.json (token ids and their log-probs) and
grads.safetensors (the gradient of the mean negative log-likelihood over all
predicted tokens of all sequences, for every parameter). References are computed in float64; the checkpoints hold
float32 or bfloat16 numbers that are exact in both. Reward models have no grads.safetensors, and in golden.json the
score of every sequence.
"""
import argparse
import json
import pathlib

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer, LlamaConfig,
                          PreTrainedTokenizerFast, Qwen2Config, Qwen3Config)

HERE = pathlib.Path(__file__).resolve().parent

COMMON = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5,
              bos_token_id=1, eos_token_id=2, initializer_range=0.02)

# name -> (config class, its arguments, stored dtype, layout)
MODELS = {
    "llama": (LlamaConfig, dict(vocab_size=96, tie_word_embeddings=False,
                                rope_parameters=dict(rope_type="default", rope_theta=10000.0)), torch.float32, 4),
    "llama-tied": (LlamaConfig, dict(vocab_size=288, tie_word_embeddings=True, head_dim=8,
                                     rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=4.0,
                                                          low_freq_factor=1.0, high_freq_factor=4.0,
                                                          original_max_position_embeddings=64)), torch.bfloat16, 4),
    "llama-linear": (LlamaConfig, dict(vocab_size=64, tie_word_embeddings=True,
                                       rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)),
                     torch.bfloat16, 5),
    "qwen2": (Qwen2Config, dict(vocab_size=96, tie_word_embeddings=True,
                                rope_parameters=dict(rope_type="default", rope_theta=1e6)), torch.float32, 5),
    "qwen3": (Qwen3Config, dict(vocab_size=96, tie_word_embeddings=False, head_dim=16, num_attention_heads=4,
                                num_key_value_heads=1,
                                rope_parameters=dict(rope_type="default", rope_theta=1e6)), torch.bfloat16, 5),
}


def randomise(model, stored, seed):
    """Sets every parameter, biases and norms included, to random values that change the result."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=g)
            if "norm" in name:
                v = 1 + 0.3 * noise
            elif name.endswith("bias"):
                v = 0.3 * noise
            else:
                v = noise * (0.7 if "embed" in name or "lm_head" in name else 1.2 / p.shape[-1] ** 0.5)
            p.copy_(v.to(stored).to(p.dtype))


def write_config(folder, cfg, layout, stored):
    d = cfg.to_dict()
    name = str(stored).removeprefix("torch.")
    d["dtype"] = name
    d["architectures"] = [{"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[d["model_type"]] + "ForCausalLM"]
    if layout == 4:  # the layout of transformers 4
        d["torch_dtype"] = d.pop("dtype")
        rope = d.pop("rope_parameters")
        d["rope_theta"] = rope.pop("rope_theta")
        d["rope_scaling"] = None if rope["rope_type"] == "default" else rope
        d["transformers_version"] = "4.46.0"
    (folder / "config.json").write_text(json.dumps(d, indent=1, sort_keys=True) + "\n")


def sequences(vocab, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocab, (n,), generator=g).tolist() for n in (7, 33, 1, 90)]


def log_probs(model, ids):
    """log p(ids[i+1] | ids[..i]) at temperature 1."""
    if len(ids) < 2:
        return []
    logits = model(torch.tensor([ids])).logits[0, :-1].double()
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def golden(folder, model, cfg, seed):
    m = model.double()
    seqs = sequences(cfg.vocab_size, seed)
    m.zero_grad()
    lps = [log_probs(m, ids) for ids in seqs]
    all_lp = torch.cat([lp for lp in lps if len(lp)])
    (-all_lp.mean()).backward()
    out = {"sequences": [{"ids": ids, "logprobs": [round(float(x.detach()), 9) for x in lp]} for ids, lp in zip(seqs, lps)]}
    (folder / "golden.json").write_text(json.dumps(out) + "\n")
    save_file({n: p.grad.float().contiguous() for n, p in m.named_parameters()}, folder / "grads.safetensors")


def tiny_tokenizer(folder, vocab):
    """A byte-level BPE tokenizer of exactly vocab tokens, with a ChatML template."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tok.decoder = decoders.ByteLevel()
    specials = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=vocab, special_tokens=specials, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator(["move up, move down, move left, move right; you are at the wall. the goal is near."] * 4,
                            trainer)
    assert tok.get_vocab_size() == vocab, tok.get_vocab_size()
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
                "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}"
                "{{ '<|im_start|>assistant\\n' }}{% endif %}")
    fast = PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<|pad|>", bos_token="<|im_start|>",
                                   eos_token="<|im_end|>", chat_template=template)
    fast.save_pretrained(folder)
    jinja = folder / "chat_template.jinja"
    if jinja.exists():  # transformers 4 reads the template from tokenizer_config.json
        p = folder / "tokenizer_config.json"
        d = json.loads(p.read_text())
        d["chat_template"] = jinja.read_text()
        p.write_text(json.dumps(d, indent=1) + "\n")
        jinja.unlink()
    return tok, template


def permute(w, heads):
    """Returns w with its rows in the order of q and k in llama GGUF files (llama.cpp's LlamaModel.permute)."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    base, _, kind = name.rpartition(".")
    if base.startswith("model.layers."):
        i, _, rest = base.removeprefix("model.layers.").partition(".")
        return f"blk.{i}.{GGUF_NAMES[rest]}.{kind}"
    return f"{GGUF_NAMES[base]}.{kind}"


def write_gguf(path, cfg, state, qtype, tok=None, template=None):
    arch = cfg.model_type
    w = gguf.GGUFWriter(str(path), arch)
    w.add_name(path.stem)
    w.add_context_length(cfg.max_position_embeddings)
    w.add_embedding_length(cfg.hidden_size)
    w.add_block_count(cfg.num_hidden_layers)
    w.add_feed_forward_length(cfg.intermediate_size)
    w.add_head_count(cfg.num_attention_heads)
    w.add_head_count_kv(cfg.num_key_value_heads)
    w.add_layer_norm_rms_eps(cfg.rms_norm_eps)
    w.add_rope_freq_base(cfg.rope_parameters["rope_theta"])
    head_dim = getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads
    if arch == "llama":
        w.add_rope_dimension_count(head_dim)
    w.add_key_length(head_dim)
    w.add_value_length(head_dim)
    w.add_vocab_size(cfg.vocab_size)
    if tok is not None:
        vocab = sorted(tok.get_vocab().items(), key=lambda kv: kv[1])
        merges = [m if isinstance(m, str) else " ".join(m) for m in json.loads(tok.to_str())["model"]["merges"]]
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("smollm")
        w.add_token_list([t for t, _ in vocab])
        w.add_token_types([3 if t.startswith("<|") else 1 for t, _ in vocab])
        w.add_token_merges(merges)
        w.add_bos_token_id(1)
        w.add_eos_token_id(2)
        w.add_pad_token_id(0)
        w.add_add_bos_token(False)
        w.add_chat_template(template)
    for name, t in state.items():
        a = t.float().numpy()
        if arch == "llama" and ".q_proj." in name:
            a = permute(a, cfg.num_attention_heads)
        if arch == "llama" and ".k_proj." in name:
            a = permute(a, cfg.num_key_value_heads)
        q = gguf.GGMLQuantizationType.F32 if a.ndim == 1 else qtype
        w.add_tensor(gguf_name(name), gguf.quants.quantize(np.ascontiguousarray(a), q), raw_dtype=q)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def make_gguf(name, cfg, state, qtype, tok=None, template=None):
    """Writes a GGUF file and its golden, which transformers computes from the file (gguf_file=)."""
    folder = HERE / "gguf"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{qtype.name.lower()}.gguf"
    write_gguf(path, cfg, state, qtype, tok, template)
    # transformers does not read qwen3's head size from the file, so the config is passed.
    given = dict(config=cfg) if cfg.model_type == "qwen3" else {}
    m = AutoModelForCausalLM.from_pretrained(folder, gguf_file=path.name, dtype=torch.float32, **given)
    m = m.double().eval()
    assert m.config.rope_parameters["rope_theta"] == cfg.rope_parameters["rope_theta"], m.config
    ids = sequences(cfg.vocab_size, 5)[1]
    with torch.no_grad():
        lp = [round(float(x), 9) for x in log_probs(m, ids)]
    path.with_suffix(".json").write_text(json.dumps({"sequences": [{"ids": ids, "logprobs": lp}]}) + "\n")


def make_tiny():
    for seed, (name, (cls, args, stored, layout)) in enumerate(MODELS.items()):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        cfg = cls(**{**COMMON, **args})
        model = AutoModelForCausalLM.from_config(cfg, dtype=torch.float32, attn_implementation="eager").eval()
        randomise(model, stored, seed)
        state = {n: p.detach().clone() for n, p in model.named_parameters()}
        save_file({n: t.to(stored).contiguous() for n, t in state.items()}, folder / "model.safetensors",
                  metadata={"format": "pt"})
        write_config(folder, cfg, layout, stored)
        golden(folder, model, cfg, seed)
        if name == "llama-tied":
            tok, template = tiny_tokenizer(folder, cfg.vocab_size)
            (folder / "generation_config.json").write_text(json.dumps(
                {"bos_token_id": 1, "eos_token_id": [2], "pad_token_id": 0, "transformers_version": "4.46.0"},
                indent=1) + "\n")
            plain = LlamaConfig(**{**cfg.to_dict(), "rope_parameters": dict(rope_type="default", rope_theta=500000.0)})
            types = gguf.GGMLQuantizationType
            for q in (types.F32, types.F16, types.BF16, types.Q8_0, types.Q4_0, types.Q4_1):
                make_gguf("llama", plain, state, q, tok, template)
        if name in ("qwen2", "qwen3"):
            make_gguf(name, cfg, state, gguf.GGMLQuantizationType.Q8_0)


SCORERS = {
    "llama-score": (LlamaConfig, dict(vocab_size=64, tie_word_embeddings=False,
                                      rope_parameters=dict(rope_type="default", rope_theta=10000.0)), torch.float32),
    "qwen2-score": (Qwen2Config, dict(vocab_size=64, tie_word_embeddings=True,
                                      rope_parameters=dict(rope_type="default", rope_theta=1e6)), torch.bfloat16),
}


def make_scores():
    """Reward models written by save_pretrained, and their scores of sequences.
    The last sequence ends in padding."""
    for seed, (name, (cls, args, stored)) in enumerate(SCORERS.items(), start=100):
        folder = HERE / name
        cfg = cls(**{**COMMON, **args}, num_labels=1, pad_token_id=0)
        model = AutoModelForSequenceClassification.from_config(cfg, dtype=torch.float32, attn_implementation="eager").eval()
        randomise(model, stored, seed)
        model.to(stored).save_pretrained(folder)
        m = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).double().eval()
        seqs = sequences(cfg.vocab_size, seed)
        seqs.append(seqs[0] + [0, 0])
        with torch.no_grad():
            scores = [float(m(torch.tensor([ids])).logits[0, 0]) for ids in seqs]
        doc = {"sequences": [{"ids": ids, "score": round(x, 9)} for ids, x in zip(seqs, scores)]}
        (folder / "golden.json").write_text(json.dumps(doc) + "\n")


SMOLLM2_TEXT = ("The agent stands in a maze and looks at the walls. It says: I should move up, then left, "
                "because the goal is behind the corner.\n\nThought: there is a wall to my left.\nAction: move up\n")


LONG = 4096


def long_ids(vocab):
    """Returns pseudo-random ids; the function longIDs in long_test.go returns the same ids."""
    x, out = 1, []
    for _ in range(LONG):
        x = (x * 1103515245 + 12345) % 2**31
        out.append(3 + x // 65536 % (vocab - 3))
    return out


def make_long():
    """Log-probs of every 128th token of a long context. Rotary angles, and the errors
    of their frequencies, grow with the position."""
    doc = {}
    for name in MODELS:
        folder = HERE / name
        cfg = AutoConfig.from_pretrained(folder, max_position_embeddings=LONG)
        m = AutoModelForCausalLM.from_pretrained(folder, config=cfg, dtype=torch.float32).eval()
        with torch.no_grad():
            lp = log_probs(m, long_ids(cfg.vocab_size))
        doc[name] = [round(float(x), 6) for x in lp[126::128]]
    (HERE / "long.json").write_text(json.dumps(doc) + "\n")


def make_smollm2(path):
    path = pathlib.Path(path).resolve()
    tok = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    m = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    ids = tok(SMOLLM2_TEXT * 3, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        lp = [round(float(x), 6) for x in log_probs(m, ids)]
        messages = [{"role": "user", "content": "What is the capital of France, and why is it famous?"}]
        prompt = tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompt_ids = tok(prompt, add_special_tokens=False)["input_ids"]
        cur, past, reply, margins = torch.tensor([prompt_ids]), None, [], []
        for _ in range(64):
            out = m(cur, past_key_values=past, use_cache=True)
            past = out.past_key_values
            top = out.logits[0, -1].topk(2)
            margins.append(float(top.values[0] - top.values[1]))
            reply.append(int(top.indices[0]))
            cur = torch.tensor([[reply[-1]]])
    doc = {"gguf": path.name, "sequences": [{"ids": ids, "logprobs": lp}],
           "chat": {"messages": messages, "prompt": prompt, "ids": prompt_ids, "greedy": reply,
                    "text": tok.decode(reply), "smallest_margin": round(min(margins), 5)}}
    (HERE / "smollm2.json").write_text(json.dumps(doc, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--smollm2", help="GGUF of SmolLM2-135M-Instruct; makes smollm2.json only")
    p.add_argument("--long", action="store_true", help="makes long.json only")
    p.add_argument("--scores", action="store_true", help="makes the reward models only")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(2)
    make_smollm2(a.smollm2) if a.smollm2 else make_long() if a.long else make_scores() if a.scores else make_tiny()
