#!/usr/bin/env python3
"""The peer of the benchmarks: the same work done with transformers.

Usage: peer_transformers.py MODEL.gguf WORKLOAD.json > RESULT.json

WORKLOAD.json is written by the Go side and says how much of what; every figure
is the best of `repeats` runs after one that is not counted. Work done:

  prefill   one forward over `batch` prompts of `tokens`, logits of the last
            position only, no gradient
  decode    `new` greedy tokens for `batch` rows behind prompts of `context`
            tokens, KV cache kept, no stop token; the prefill is not timed
  train     forward, mean token loss, backward, AdamW step over `batch` rows of
            `tokens`
  turns     `episodes` conversations of `turns` turns: a prompt of `prompt`
            tokens, then each turn generates `new` tokens and appends an
            observation of `observation` tokens; one KV cache kept for the whole
            batch, which moves in lock step, the fastest form transformers has
"""

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM, DynamicCache


def best(repeats, run):
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def ids(batch, tokens, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.randint(10, vocab - 10, (batch, tokens), generator=g)


@torch.no_grad()
def prefill(model, w):
    x = ids(w["batch"], w["tokens"], model.config.vocab_size, 1)
    seconds = best(w["repeats"], lambda: model(x, logits_to_keep=1, use_cache=False))
    return w["batch"] * w["tokens"] / seconds


@torch.no_grad()
def generate(model, cache, last, new):
    for _ in range(new):
        out = model(last, past_key_values=cache, use_cache=True, logits_to_keep=1)
        last = out.logits[:, -1:].argmax(-1)
    return last


@torch.no_grad()
def decode(model, w):
    x = ids(w["batch"], w["context"], model.config.vocab_size, 2)
    times = []
    for i in range(w["repeats"] + 1):
        cache = DynamicCache(config=model.config)
        out = model(x, past_key_values=cache, use_cache=True, logits_to_keep=1)
        last = out.logits[:, -1:].argmax(-1)
        start = time.perf_counter()
        generate(model, cache, last, w["new"])
        if i > 0:
            times.append(time.perf_counter() - start)
    return w["batch"] * w["new"] / min(times)


def train(model, w, autocast):
    x = ids(w["batch"], w["tokens"], model.config.vocab_size, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    model.train()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = model(x, labels=x, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    seconds = best(w["repeats"], step)
    model.eval()
    return w["batch"] * w["tokens"] / seconds


@torch.no_grad()
def turns(model, w):
    vocab = model.config.vocab_size

    def run():
        cache = DynamicCache(config=model.config)
        x = ids(w["episodes"], w["prompt"], vocab, 4)
        for turn in range(w["turns"]):
            out = model(x, past_key_values=cache, use_cache=True, logits_to_keep=1)
            last = out.logits[:, -1:].argmax(-1)
            last = generate(model, cache, last, w["new"] - 1)
            x = torch.cat([last, ids(w["episodes"], w["observation"], vocab, 5 + turn)], 1)

    seconds = best(w["repeats"], run)
    return w["episodes"] * w["turns"] / seconds


def main():
    gguf, workload = sys.argv[1], json.load(open(sys.argv[2]))
    torch.set_num_threads(workload["threads"])
    folder, _, name = gguf.rpartition("/")
    result = {}
    for dtype in workload["dtypes"]:
        model = AutoModelForCausalLM.from_pretrained(folder or ".", gguf_file=name, dtype=getattr(torch, dtype))
        model.eval()
        for kind, fn in (("prefill", prefill), ("decode", decode), ("turns", turns)):
            for w in workload[kind]:
                result[f"{kind}/{dtype}/{w['name']}"] = fn(model, w)
        # Training keeps float32 weights in both; bfloat16 means autocast.
        model = model.float()
        for w in workload["train"]:
            result[f"train/{dtype}/{w['name']}"] = train(model, w, dtype == "bfloat16")
        del model
    json.dump(result, sys.stdout, indent=1, sort_keys=True)
    print()


if __name__ == "__main__":
    main()
