#!/usr/bin/env python3
"""The peer of the benchmarks: the same work done with llama.cpp's server.

Usage: peer_llamacpp.py MODEL.gguf THREADS DTYPE

The server of llama.cpp runs in this process (package xllamacpp) and is asked over
HTTP on 127.0.0.1, one request a reply, as an agent asks it: all rows at once, each
in a slot of its own, whose KV cache is kept for the next request. The file MODEL has
weights of type DTYPE; the KV cache has the server's default type, float16.

The protocol and the jobs are those of peer_transformers.py. train is not among them,
since llama.cpp does not train. A server has slots of one size, so the
first job of another size starts a new server, before the clock starts.
"""

import concurrent.futures
import http.client
import json
import os
import random
import sys
import time

import xllamacpp

SPECIAL = 10  # token ids at both ends of the vocabulary that are not drawn


class Peer:
    def __init__(self, gguf, threads):
        self.gguf = gguf
        self.threads = threads
        self.size = None
        self.server = None

    def open(self, slots, context):
        """Starts a server with the given number of slots of `context` tokens, unless it runs already."""
        if self.size == (slots, context):
            return
        self.server = None  # ends the old server
        p = xllamacpp.CommonParams()
        p.model.path = self.gguf
        p.n_parallel = slots
        p.n_ctx = slots * context
        p.kv_unified = False
        p.fit_params = False
        p.cpuparams.n_threads = self.threads
        p.cpuparams_batch.n_threads = self.threads
        p.n_threads_http = slots + 1
        p.n_ctx_checkpoints = 0
        p.cache_ram_mib = 0
        p.port = 0
        p.verbosity = -1
        self.server = xllamacpp.Server(p)
        self.size = (slots, context)
        self.pool = concurrent.futures.ThreadPoolExecutor(slots)
        self.address = self.server.listening_address.split("//")[1]

    def reply(self, slot, ids, new, fresh=False):
        """Returns `new` tokens after ids, of which a slot that is not fresh has the beginning in its cache."""
        body = {
            "prompt": ids,
            "n_predict": new,
            "id_slot": slot,
            "cache_prompt": not fresh,
            "temperature": 0,
            "samplers": ["temperature"],
            "ignore_eos": True,
            "return_tokens": True,
        }
        # The server closes connections that are idle for seconds, so each reply has its own.
        c = http.client.HTTPConnection(self.address, timeout=3600)
        c.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
        response = c.getresponse()
        text = response.read()
        c.close()
        if response.status != 200:
            sys.exit(f"llama.cpp's server answered {response.status}: {text.decode()}")
        tokens = json.loads(text)["tokens"]
        if len(tokens) != new:
            sys.exit(f"llama.cpp sampled {len(tokens)} tokens, want {new}")
        return tokens

    def together(self, rows, f):
        """Calls f(row) for all rows at once and returns the results and the seconds."""
        start = time.perf_counter()
        out = list(self.pool.map(f, rows))
        return out, time.perf_counter() - start

    def ids(self, n, *seed):
        return random.Random(str(seed)).choices(range(SPECIAL, 32000), k=n)

    def prefill(self, job):
        self.open(job["batch"], max(job["lengths"]) + 8)
        prompts = [self.ids(n, 1, row) for row, n in enumerate(job["lengths"])]
        return self.together(range(job["batch"]), lambda row: self.reply(row, prompts[row], 1, fresh=True))[1]

    def decode(self, job):
        self.open(job["batch"], job["context"] + job["new"] + 8)
        rows = range(job["batch"])
        prompts = [self.ids(job["context"], 2, row) for row in rows]
        first, _ = self.together(rows, lambda row: self.reply(row, prompts[row], 1, fresh=True))
        return self.together(rows, lambda row: self.reply(row, prompts[row] + first[row], job["new"]))[1]

    def turns(self, job):
        most = max(job["played"])
        self.open(job["batch"], job["prompt"] + most * (job["observation"] + job["new"]) + 8)

        def play(row):
            ids = []
            for turn in range(job["played"][row]):
                ids += self.ids(job["observation"] if turn else job["prompt"], 3, row, turn)
                ids += self.reply(row, ids, job["new"], fresh=turn == 0)

        return self.together(range(job["batch"]), play)[1]


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    # stdout is reserved for the protocol; output of the library goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(value):
        print(json.dumps(value), file=out, flush=True)

    peer = Peer(sys.argv[1], int(sys.argv[2]))
    kinds = {"prefill": peer.prefill, "decode": peer.decode, "turns": peer.turns}
    answer({"versions": {"xllamacpp": xllamacpp.__version__}, "threads": peer.threads})
    for line in sys.stdin:
        job = json.loads(line)
        answer({"seconds": kinds[job["kind"]](job)})


if __name__ == "__main__":
    main()
