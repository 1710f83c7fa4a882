#!/usr/bin/env python3
"""The peer of the benchmarks: the same work done with transformers.

Usage: peer_transformers.py MODEL.gguf THREADS DTYPE

Writes one JSON line when the model is loaded, with the versions that are
compared. Then it reads one job a line on stdin (the fields of Job in job.go, with
`lengths`, the tokens of each row, and `played`, the turns of each conversation),
does it once and answers {"seconds": S}, the time of the part that counts:

  prefill   `batch` prompts of `tokens` into a KV cache, the logits of the last
            position only, the next token chosen
  decode    `new` greedy tokens for `batch` rows behind prompts of `context`
            tokens, KV cache kept, no stop token; the prefill is not timed
  turns     `batch` conversations of `turns` turns: a prompt of `prompt` tokens,
            then each turn generates `new` tokens and appends `observation`
            tokens; one KV cache kept for the whole batch, which moves in lock
            step, the fastest form transformers has. A conversation that has
            ended leaves the batch. With the form "re-encoding", each turn
            reads the whole conversation again
  train     forward, mean token loss, backward, clipping, AdamW step over
            the rows. Rows of one length form one batch. Rows of several
            lengths are padded in batches of four; with the form "sorted"
            after sorting by length; with the form "single" each row is a batch

DTYPE bfloat16 makes the weights bfloat16, in training the arithmetic (autocast).
Repeating, and taking the median, is the caller's business.
"""

import copy
import json
import os
import random
import sys
import time

import torch
import transformers
from transformers import AutoModelForCausalLM, DynamicCache


PADDED_ROWS = 4  # rows of a batch in training on rows of several lengths


class Peer:
    def __init__(self, gguf, dtype):
        folder, name = os.path.split(gguf)
        self.dtype = dtype
        self.trained = AutoModelForCausalLM.from_pretrained(folder or ".", gguf_file=name, dtype=torch.float32)
        self.trained.eval()
        self.model = self.trained if dtype == torch.float32 else copy.deepcopy(self.trained).to(dtype)
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
        played = torch.tensor(job["played"])
        given = [self.ids(job["batch"], job["observation"] if t else job["prompt"], 3 + t) for t in range(max(job["played"]))]
        again = job.get("form") == "re-encoding"
        cache, left, text = self.cache(), torch.arange(job["batch"]), None
        start = time.perf_counter()
        for turn, x in enumerate(given):
            kept = (played[left] > turn).nonzero().flatten()
            if len(kept) < len(left):
                cache.batch_select_indices(kept)
                left, text = left[kept], text[kept]
            x = x[left]
            text = x if text is None else torch.cat([text, x], 1)
            if again:
                cache = self.cache()
            # The cache holds all tokens but those given and, after a reply, its last one.
            x = self.advance(text[:, cache.get_seq_length() :], cache)
            text = torch.cat([text, x], 1)
            for _ in range(job["new"] - 1):
                x = self.advance(x, cache)
                text = torch.cat([text, x], 1)
        return time.perf_counter() - start

    def batches(self, lengths, form):
        """Returns the lengths of the rows of each batch."""
        if len(set(lengths)) == 1:
            return [lengths]
        if form == "sorted":
            lengths = sorted(lengths)
        n = 1 if form == "single" else PADDED_ROWS
        return [lengths[i : i + n] for i in range(0, len(lengths), n)]

    def train(self, job):
        if self.optimizer is None:
            # AdamW with the implementation that transformers' Trainer uses by default.
            self.optimizer = torch.optim.AdamW(self.trained.parameters(), lr=1e-6, fused=True)
        lengths = job["lengths"]
        if job.get("form") != "sorted":
            lengths = random.Random(1).sample(lengths, len(lengths))  # as a data loader gives them
        predicted = sum(lengths) - len(lengths)
        self.trained.train()
        start = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        for rows in self.batches(lengths, job.get("form")):
            x = self.ids(len(rows), max(rows), 5)
            real = torch.arange(max(rows)) < torch.tensor(rows)[:, None]
            labels = x.masked_fill(~real, -100)
            mask = None if real.all() else real.long()
            with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == torch.bfloat16):
                loss = self.trained(x, attention_mask=mask, labels=labels, use_cache=False).loss
            (loss * ((sum(rows) - len(rows)) / predicted)).backward()
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step()
        seconds = time.perf_counter() - start
        self.trained.eval()
        return seconds


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    torch.set_num_threads(int(sys.argv[2]))
    # stdout is reserved for the protocol; output of libraries goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=out, flush=True)

    transformers.utils.logging.disable_progress_bar()
    peer = Peer(sys.argv[1], getattr(torch, sys.argv[3]))
    kinds = {"prefill": peer.prefill, "decode": peer.decode, "turns": peer.turns, "train": peer.train}
    answer({"versions": {"transformers": transformers.__version__, "torch": torch.__version__}, "threads": torch.get_num_threads()})
    for line in sys.stdin:
        job = json.loads(line)
        answer({"seconds": kinds[job["kind"]](job)})


if __name__ == "__main__":
    main()
