#!/usr/bin/env python3
"""The peer of the benchmarks: the same work done with transformers.

Usage: peer_transformers.py MODEL.gguf THREADS

Writes one JSON line when the model is loaded, with the versions that are
compared. Then it reads one job a line on stdin (the fields of Job in job.go),
does it once and answers {"seconds": S}, the time of the part that counts:

  prefill   `batch` prompts of `tokens` into a KV cache, the logits of the last
            position only, the next token chosen
  decode    `new` greedy tokens for `batch` rows behind prompts of `context`
            tokens, KV cache kept, no stop token; the prefill is not timed
  turns     `batch` conversations of `turns` turns: a prompt of `prompt` tokens,
            then each turn generates `new` tokens and appends `observation`
            tokens; one KV cache kept for the whole batch, which moves in lock
            step, the fastest form transformers has
  train     forward, mean token loss, backward, clipping, AdamW step over
            `batch` rows of `tokens`

Repeating, and choosing the fastest run, is the caller's business.
"""

import json
import os
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache


class Peer:
    def __init__(self, gguf):
        folder, name = os.path.split(gguf)
        self.model = AutoModelForCausalLM.from_pretrained(folder or ".", gguf_file=name, dtype=torch.float32)
        self.model.eval()
        self.vocab = self.model.config.vocab_size
        self.optimizer = None

    def ids(self, batch, tokens, seed):
        g = torch.Generator().manual_seed(seed)
        return torch.randint(10, self.vocab - 10, (batch, tokens), generator=g)

    def cache(self):
        return DynamicCache(config=self.model.config)

    def advance(self, x, cache):
        """Appends x [B,T] to the cache and returns the next tokens [B,1]."""
        out = self.model(x, past_key_values=cache, use_cache=True, logits_to_keep=1)
        return out.logits[:, -1:].argmax(-1)

    def generate(self, x, cache, new):
        for _ in range(new):
            x = self.advance(x, cache)
        return x

    @torch.no_grad()
    def prefill(self, job):
        x = self.ids(job["batch"], job["tokens"], 1)
        start = time.perf_counter()
        self.advance(x, self.cache())
        return time.perf_counter() - start

    @torch.no_grad()
    def decode(self, job):
        cache = self.cache()
        last = self.advance(self.ids(job["batch"], job["context"], 2), cache)
        start = time.perf_counter()
        self.generate(last, cache, job["new"])
        return time.perf_counter() - start

    @torch.no_grad()
    def turns(self, job):
        given = [self.ids(job["batch"], job["prompt"], 3)]
        given += [self.ids(job["batch"], job["observation"], 4 + t) for t in range(1, job["turns"])]
        cache = self.cache()
        last = None
        start = time.perf_counter()
        for x in given:
            x = x if last is None else torch.cat([last, x], 1)
            last = self.generate(self.advance(x, cache), cache, job["new"] - 1)
        return time.perf_counter() - start

    def train(self, job):
        if self.optimizer is None:
            # AdamW with the implementation that transformers' Trainer uses by default.
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=True)
        x = self.ids(job["batch"], job["tokens"], 5)
        self.model.train()
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        self.model(x, labels=x, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        seconds = time.perf_counter() - start
        self.model.eval()
        return seconds


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    torch.set_num_threads(int(sys.argv[2]))
    # stdout is reserved for the protocol; output of libraries goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=out, flush=True)

    transformers.utils.logging.disable_progress_bar()
    peer = Peer(sys.argv[1])
    kinds = {"prefill": peer.prefill, "decode": peer.decode, "turns": peer.turns, "train": peer.train}
    answer({"transformers": transformers.__version__, "torch": torch.__version__, "threads": torch.get_num_threads()})
    for line in sys.stdin:
        job = json.loads(line)
        answer({"seconds": kinds[job["kind"]](job)})


if __name__ == "__main__":
    main()
