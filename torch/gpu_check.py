"""Runs the parts of gpu_check.sh in an unpacked pack and writes their results into one JSON file.

Usage: gpu_check.py PACK DEVICE RESULTS TORCH_LIB [PART...]

A part that fails or exceeds its time limit does not stop the others. The file is written again after every part, so it
is complete up to the part in which the machine was lost. On a device other than CUDA the parts run with small shapes.
"""

import array
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

pack, device, results, torch_lib, *chosen = sys.argv[1:]
full = device.startswith("cuda")
began = time.monotonic()
slower = 4 if device == "protected" else 1  # every access of its memory changes the protection of pages
budget = float(os.environ.get("OPENMANUS_GPU_CHECK_SECONDS", slower * 570))
work = os.path.join(pack, "work")
openmanus, bench = os.path.join(pack, "bin/openmanus"), os.path.join(pack, "bin/bench")
lock = threading.Lock()
running = set()  # groups of processes; guarded by lock
report = {"device": device, "small": not full, "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "parts": []}
quickstart_bound = 0.85  # as in internal/accept


class Failed(Exception):
    """A part whose commands ran but whose result is not the required one."""


def stop(number, _):
    """Ends the processes of all parts. The results so far are in the file."""
    for group in list(running):
        os.killpg(group, signal.SIGKILL)
    os._exit(128 + number)


def left():
    return budget - (time.monotonic() - began)


def run(command, limit, cwd=None, until=None):
    """Runs a command and returns its output. The limit is in seconds. until is called four times a second; when it
    returns true, the processes are killed."""
    limit = min(slower * limit, left())
    if limit <= 1:
        raise Failed("not run: the time of the whole check is spent")
    with open(os.path.join(work, "out-%d" % threading.get_ident()), "w+b") as out:
        with lock:
            p = subprocess.Popen(command, cwd=cwd or work, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
            running.add(p.pid)
        end, cut = time.monotonic() + limit, False
        try:
            while True:
                try:
                    p.wait(0.25)
                    break
                except subprocess.TimeoutExpired:
                    pass
                cut = until is not None and until()
                if cut or time.monotonic() > end:
                    os.killpg(p.pid, signal.SIGKILL)
                    p.wait()
                    break
        finally:
            with lock:
                running.discard(p.pid)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if cut:
        return text
    if p.returncode == -signal.SIGKILL and time.monotonic() > end:
        raise Failed("still running after %.0f s\n%s" % (limit, text))
    if p.returncode != 0:
        raise Failed("exit status %d\n%s" % (p.returncode, text))
    return text


def part(name, function, *arguments):
    """Runs a part and records its values, or the end of its error."""
    if chosen and not any(name.startswith(c) for c in chosen):
        return
    start, record = time.monotonic(), {"name": name, "ok": True}
    try:
        record["values"] = function(*arguments)
    except Exception as e:  # also faults of this script: the other parts must run
        text = str(e) if isinstance(e, Failed) else repr(e)
        record["ok"], record["error"] = False, text[:500] + ("\n…\n" + text[-3500:] if len(text) > 4000 else text[500:])
    record["seconds"] = round(time.monotonic() - start, 1)
    with lock:
        report["parts"].append(record)
        save()
    print("%-6s %6.1f s  %s" % ("ok" if record["ok"] else "FAILED", record["seconds"], name), file=sys.stderr, flush=True)
    if not record["ok"]:
        print("\n".join("    " + line for line in record["error"].splitlines()[-8:]), file=sys.stderr, flush=True)


def save():
    report["seconds"] = round(time.monotonic() - began, 1)
    report["ok"] = all(p["ok"] for p in report["parts"])
    with open(results + ".tmp", "w") as f:
        json.dump(report, f, indent=1)
    os.replace(results + ".tmp", results)


# ---------------------------------------------------------------- machine

def machine():
    """Describes the machine and the loaded libraries, which must be those of the pack and of the found PyTorch."""
    v = json.loads(run([openmanus, "version", "--json"], 60))
    libraries = v["libraries"]
    shim = [f for f in libraries["files"] if f.endswith("/libopenmanus_torch.so")]
    for what, path, folder in [("libopenmanus_torch", shim[0], os.path.join(pack, "lib")), ("libtorch_cpu", libraries["libtorch_cpu"], torch_lib)]:
        if os.path.realpath(os.path.dirname(path)) != os.path.realpath(folder):
            raise Failed("%s was loaded from %s, want %s" % (what, path, folder))
    if full and not libraries["libtorch_cuda"]:
        raise Failed("libtorch_cuda is not loaded: " + json.dumps(libraries))
    values = {"version": v, "cores": os.cpu_count()}
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,power.limit"
        values["gpu"] = run(["nvidia-smi", "--query-gpu=" + query, "--format=csv"], 60).strip().splitlines()
    return values


# ------------------------------------------------------------------ tests

# Without a GPU, build.sh test has run every test already: of the largest package, a few suffice.
SUBSET = {"algo": "^(TestCritic|TestFilterGroups|TestTruncatedSampling|TestUtilization|TestCourse)"}


def tests(package, limit):
    command = [os.path.join(pack, package, "check"), "-test.short", "-test.v", "-test.timeout", "%ds" % (slower * limit)]
    values = {}
    if not full and package in SUBSET:
        command += ["-test.run", SUBSET[package]]
        values["subset"] = SUBSET[package]
    try:
        out = run(command, limit + 5, cwd=os.path.join(pack, package))
    except Failed as e:  # without the lines of the tests that passed
        raise Failed("\n".join(line for line in str(e).splitlines() if not re.match(r"=== |\s*--- PASS", line)))
    values["passed"] = len(re.findall(r"^--- PASS", out, re.M))
    values["skipped"] = re.findall(r"^--- SKIP: (\S+)", out, re.M)
    if values["passed"] == 0:
        raise Failed("no test ran\n" + out)
    return values


def bfloat16():
    """Compares bfloat16 log-probs with transformers' of the tiny models, and gradients with float32."""
    cwd = os.path.join(pack, "agent/llm/model")
    out = run([os.path.join(cwd, "check"), "-test.v", "-test.run", "^(TestBFloat16IsClose|TestShadowTrains)$"], 60, cwd=cwd)
    passed = re.findall(r"--- PASS: (\S+)", out)
    if len(passed) < 4:
        raise Failed("want several tests\n" + out)
    return {"passed": passed}


def collectives():
    """Compares every collective of groups of 1 to 4 processes with expected values; on GPUs, ranks also die and hang. NCCL
    computes if every rank has a GPU, otherwise Gloo, on the CPU or on copies in host memory."""
    cwd = os.path.join(pack, "torch/dist")
    names = ["TestCollectives", "TestLibrary"]
    if full:
        names += ["TestOperandsThatDoNotFit", "TestLostRankIsNamed", "TestContextEndsCollective"]
    out = run([os.path.join(cwd, "check"), "-test.v", "-test.run", "^(%s)$" % "|".join(names)], 120, cwd=cwd)
    libraries = {int(ranks): library for ranks, library in re.findall(r"with (\d+) ranks: (.*)", out)}
    if full and libraries.get(1) != "nccl":
        raise Failed("one rank computed with %s, want nccl\n%s" % (libraries, out))
    return {"library_by_ranks": libraries, "passed": len(re.findall(r"^ *--- PASS", out, re.M))}


# --------------------------------------------------------------- training

def train(name, limit, *settings, until=None):
    """Runs openmanus train and returns the lines of its metrics."""
    folder = os.path.join(work, "run-" + name)
    command = [openmanus, "train", "--device", device]
    for s in ("trainer.output_dir=" + folder, *settings):
        command += ["--set", s]
    run(command, limit, until=until)
    return metrics(name)


def metrics(name):
    try:
        with open(os.path.join(work, "run-" + name, "quickstart/metrics.jsonl")) as f:
            return [json.loads(line) for line in f if line.endswith("\n")]
    except FileNotFoundError:
        return []


def steps(lines):
    return [m for m in lines if m.get("phase") == "train" and m.get("step", 0) > 0]


def learned(lines, want, *keys):
    """Checks that every step changed the weights, and returns the metrics of the last one."""
    trained = steps(lines)
    if [m["step"] for m in trained] != list(range(1, want + 1)):
        raise Failed("steps %s, want 1 to %d" % ([m["step"] for m in trained], want))
    for m in trained:
        for key in ("actor/grad_norm", *keys):
            if not 0 < m.get(key, 0) < 1e6:
                raise Failed("step %d has the %s %s" % (m["step"], key, m.get(key)))
    last = trained[-1]
    return {k: last[k] for k in last if k.startswith(("perf/", "timing_s/")) or k in ("actor/grad_norm", "rollout/logprob_gap_max", *keys)}


TINY = ["model.fresh.walks=10", "data.train_batch_size=2", "rollout.group_size=2", "rollout.val.group_size=1", "rollout.max_sequences=16",
        "trainer.total_steps=3", "trainer.test_every=0", "trainer.val_before_train=false", "trainer.save_every=1", "algo.adv_estimator=gae"]


def quickstart():
    if not full:
        length = "reward.components.characters."  # rewards that differ within a group, although no episode succeeds
        learned(train("quickstart", 60, *[s for s in TINY if "gae" not in s], length + "fn=length", length + "unit=characters",
                      length + "max_length=1", length + "weight=-0.001", "algo.filter_metric=seq_final_reward"), 3)
        return {"reduced": "three steps of a tiny model; the success rate is not checked"}
    lines = train("quickstart", 300)
    rates = [(m["step"], m["val/overall/success_rate"]) for m in lines if "val/overall/success_rate" in m]
    if rates[-1][1] < quickstart_bound:
        raise Failed("success rates %s, want at least %s at the end" % (rates, quickstart_bound))
    last = steps(lines)[-1]
    return {"success_rates": rates, "last_step": {k: v for k, v in last.items() if k.startswith(("perf/", "timing_s/"))}}


def ppo():
    return learned(train("ppo", 90, *TINY), 3, "critic/grad_norm")


def lora():
    """Trains adapters of the model that the part ppo has saved."""
    base = os.path.join(work, "run-ppo/quickstart/checkpoints/step_000003/actor")
    return learned(train("lora", 90, *[s for s in TINY if "fresh" not in s], "model.path=" + base, "model.fresh.layers=0", "sft.epochs=0",
                         "model.lora_rank=8", "model.compute_dtype=bfloat16"), 3)


def resume():
    """Kills a run after its first step. The same command must go on with the second."""
    name, checkpoint = "resume", os.path.join(work, "run-resume/quickstart/checkpoints/step_000001/manifest.json")
    train(name, 90, *TINY, until=lambda: os.path.exists(checkpoint))
    before = len(steps(metrics(name)))
    if before not in (1, 2):
        raise Failed("the run had %d steps when it was killed, want 1 or 2" % before)
    values = learned(train(name, 90, *TINY), 3)
    return {"steps_before_kill": before, **values}


# ------------------------------------------------------------ large models

QWEN2_5_1_5B = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960,
    "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "max_position_embeddings": 32768, "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0, "tie_word_embeddings": True, "hidden_act": "silu", "bos_token_id": 151643, "eos_token_id": 151643,
    "initializer_range": 0.02, "torch_dtype": "bfloat16"}
QWEN3_0_6B = {
    **QWEN2_5_1_5B, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "attention_bias": False}
SMALL = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 1}
SMALL_HEAD = 16


def shapes(c):
    """Returns the name and the shape of every weight of a model."""
    head = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    h, q, kv, ff = c["hidden_size"], c["num_attention_heads"] * head, c["num_key_value_heads"] * head, c["intermediate_size"]
    yield "model.embed_tokens.weight", [c["vocab_size"], h]
    yield "model.norm.weight", [h]
    for i in range(c["num_hidden_layers"]):
        for name, shape in [("input_layernorm", [h]), ("post_attention_layernorm", [h]), ("self_attn.q_proj", [q, h]), ("self_attn.k_proj", [kv, h]),
                            ("self_attn.v_proj", [kv, h]), ("self_attn.o_proj", [h, q]), ("mlp.gate_proj", [ff, h]), ("mlp.up_proj", [ff, h]),
                            ("mlp.down_proj", [h, ff])]:
            yield "model.layers.%d.%s.weight" % (i, name), shape
        if c["model_type"] == "qwen2":
            for name, n in [("q", q), ("k", kv), ("v", kv)]:
                yield "model.layers.%d.self_attn.%s_proj.bias" % (i, name), [n]
        else:
            for name in "q", "k":
                yield "model.layers.%d.self_attn.%s_norm.weight" % (i, name), [head]


def write_model(name, config):
    """Writes a random model, and returns its folder and the number of its weights. The weights repeat one block of normal
    draws: speed and memory do not depend on their values."""
    if not full:
        config = {**config, **SMALL, **({"head_dim": SMALL_HEAD} if "head_dim" in config else {})}
    folder = os.path.join(work, name)
    header, offset = {}, 0
    for weight, shape in shapes(config):
        n = 1
        for d in shape:
            n *= d
        header[weight] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + 2 * n]}
        offset += 2 * n
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return folder, offset // 2
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    draw = random.Random(1)
    floats = array.array("f", (draw.gauss(0, 0.02) for _ in range(999983 if full else 9973)))
    # bfloat16 is the upper half of float32.
    block = memoryview(array.array("H", floats.tobytes())[1::2]).cast("B")
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "partial"), "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        while offset > 0:
            offset -= f.write(block[:min(offset, len(block))])
    os.rename(os.path.join(folder, "partial"), os.path.join(folder, "model.safetensors"))
    return folder, sum(v["data_offsets"][1] - v["data_offsets"][0] for v in header.values()) // 2


# Jobs of `bench job`: the model, the limit in seconds, the job on a GPU, and its smaller sizes elsewhere.
JOBS = [
    ("1.5B", 60, {"kind": "decode", "batch": 1, "context": 512, "new": 128}, {"context": 16, "new": 8}),
    ("1.5B", 60, {"kind": "decode", "batch": 32, "context": 512, "new": 128}, {"batch": 3, "context": 16, "new": 8}),
    ("1.5B", 120, {"kind": "decode", "batch": 256, "context": 512, "new": 64}, {"batch": 8, "context": 16, "new": 8}),
    ("1.5B", 60, {"kind": "decode", "batch": 1, "context": 512, "new": 128, "eager": True}, {"context": 16, "new": 8}),
    ("1.5B", 60, {"kind": "decode", "batch": 32, "context": 512, "new": 128, "eager": True}, {"batch": 3, "context": 16, "new": 8}),
    ("1.5B", 60, {"kind": "prefill", "batch": 32, "tokens": 512}, {"batch": 4, "tokens": 32}),
    ("1.5B", 60, {"kind": "prefill", "batch": 200, "tokens": 2000, "ragged": True}, {"tokens": 48}),
    ("1.5B", 60, {"kind": "train", "batch": 4, "tokens": 2048}, {"batch": 2, "tokens": 64}),
    ("1.5B", 60, {"kind": "train", "batch": 200, "tokens": 66, "ragged": True}, {"tokens": 32}),
    ("0.6B", 60, {"kind": "train", "batch": 1, "tokens": 16384}, {"tokens": 128}),
]


def jobs():
    """Yields the name of every job on this device, such as "1.5B: train 4 rows of 2048", and the arguments of measure."""
    for model, limit, large, small in JOBS:
        j = {**large, **({} if full else small)}
        rows = "%d row%s" % (j["batch"], "s" if j["batch"] > 1 else "")
        what = "after %d" % j["context"] if j["kind"] == "decode" else "of %s%d" % ("16 to " if "ragged" in j else "", j["tokens"])
        name = "%s%s: %s %s %s%s" % (model, "" if full else "-like, small", j["kind"], rows, what, " without graphs" if "eager" in j else "")
        yield name, model, limit, {**j, "name": name}


def measure(model, limit, job):
    folder, weights = write_model(model, {"1.5B": QWEN2_5_1_5B, "0.6B": QWEN3_0_6B}[model])
    out = run([bench, "job", "--json", "--rounds", "2" if full else "1", "--device", device, "--dtype", "bfloat16", "--model", folder,
               "--job", json.dumps(job)], limit)
    r = json.loads(out[out.index("{\n"):])
    speed = r["speed"][0]
    values = {"job": {k: v for k, v in speed["job"].items() if v}, "weights": weights, "per_second": round(speed["ours"], 1),
              "unit": speed["unit"], "seconds": speed["ours_seconds"], "memory": r["memory"]}
    if job["kind"] == "train":
        values["weight_tflop_per_s"] = round(6 * weights * speed["ours"] / 1e12, 2)  # without the products of attention
    return values


def profile():
    """Lists the kernels of a decoding and of a training job by their time, or the phases of the last training step where there is no nsys."""
    if full and shutil.which("nsys"):
        folder, _ = write_model("1.5B", QWEN2_5_1_5B)
        kernels = {}
        for job in ({"name": "profile", "kind": "decode", "batch": 32, "context": 512, "new": 32},
                    {"name": "profile", "kind": "train", "batch": 4, "tokens": 2048}):
            kind = job["kind"]
            run(["nsys", "profile", "--force-overwrite=true", "--output", kind, bench, "job", "--json", "--rounds", "1", "--device", device,
                 "--dtype", "bfloat16", "--model", folder, "--job", json.dumps(job)], 90)
            kernels[kind] = run(["nsys", "stats", "--report", "cuda_gpu_kern_sum,cuda_api_sum", "--format", "csv", kind + ".nsys-rep"], 60)[:12000]
        return {"kernels": kernels}
    phases = {}
    for name in "quickstart", "ppo", "lora":
        lines = steps(metrics(name))
        if lines:
            phases[name] = {k: v for k, v in lines[-1].items() if k.startswith(("timing_s/", "perf/"))}
    if not phases:
        raise Failed("no training step was recorded, and there is no nsys")
    return {"phases": phases}


def table():
    """Collects the memory of all measured jobs."""
    rows = {p["name"]: p["values"]["memory"] for p in report["parts"] if "memory" in p.get("values", {})}
    if not rows:
        raise Failed("no job was measured")
    return rows


# -------------------------------------------------------------------- main

PACKAGES = [("torch", 90), ("torch/nn", 40), ("torch/optim", 40), ("agent/llm/model", 120), ("agent/llm/generate", 90), ("algo/kl", 40),
            ("algo/loss", 40), ("algo/learner", 120), ("algo", 240)]


def main():
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, stop)
    os.environ["OPENMANUS_TEST_DEVICE"] = device
    part("libraries and machine", machine)
    for name, *arguments in jobs():
        part(name, measure, *arguments)
    part("memory", table)
    # Nothing below is a measurement of speed, so the parts share the machine.
    with concurrent.futures.ThreadPoolExecutor(3 if full else 1) as pool:
        pool.submit(part, "quickstart", quickstart)
        for package, limit in PACKAGES:
            pool.submit(part, "tests of " + package, tests, package, limit)
        pool.submit(part, "bfloat16 like float32", bfloat16)
        pool.submit(part, "collectives", collectives)
        pool.submit(lambda: (part("PPO with a critic", ppo), part("LoRA in bfloat16", lora)))
        pool.submit(part, "resume after kill -9", resume)
    part("profile", profile)
    save()
    print("results in " + results, file=sys.stderr)
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
