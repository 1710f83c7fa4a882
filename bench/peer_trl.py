#!/usr/bin/env python3
"""The peer of `bench grpo`: the same GRPO steps with TRL's GRPOTrainer.

Usage: peer_trl.py JOB.json

The job (TRLJob in trl.go) gives a model, prompts as ids, and the sizes of a
step: every prompt is answered `group` times with exactly `new` tokens, and all
answers make one optimiser step, `micro` rows a pass. A reward is a number of
characters, so that groups have spread. Weights are float32 on the CPU, and with
`bf16` the arithmetic is bfloat16 (the trainer's own setting). Gradient
checkpointing is off on both sides.

It does `steps` steps and writes one JSON line: the versions, the seconds from
the end of one step to the end of the next (the first: from the start), how many
tokens the prompts and the answers of a step had, and the most memory the process
had from when its model was loaded: loading a GGUF file takes the model twice
here (plain), which training does not.
"""

import ctypes
import gc
import json
import os
import sys
import tempfile
import time

import datasets
import peft
import torch
import transformers
import trl
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, TrainerCallback


class Clock(TrainerCallback):
    """Records the duration of every step in seconds."""

    def __init__(self):
        self.seconds = []

    def on_train_begin(self, args, state, control, **kwargs):
        self.last = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now


def plain(folder, name):
    """The weights of a GGUF file, which from_pretrained has made float32, in a
    model that is not marked as quantized: the trainer rejects quantized models."""
    read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    config = AutoConfig.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict(), assign=True)
    model.tie_weights()
    return model


def forget_peak():
    """Resets the kernel's peak memory of the process to its current memory (proc(5))."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError as e:
        sys.exit(f"cannot reset the peak memory, so the peak would include the loading of the model: {e}")


def peak():
    """Returns the peak resident memory in bytes since the reset."""
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    sys.exit("/proc/self/status has no VmHWM")


def texts(tokenizer, prompts):
    """Returns the prompts as texts that the tokenizer encodes to their ids."""
    out = []
    for ids in prompts:
        text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        got = tokenizer(text)["input_ids"]
        if got != ids:
            sys.exit(f"a prompt of {len(ids)} ids is encoded as {len(got)} different ids, so the two sides would do different work")
        out.append(text)
    return out


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1]) as f:
        job = json.load(f)
    # stdout is reserved for the answer; output of libraries goes to stderr.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(job["threads"])
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()

    folder, name = os.path.split(job["model"])
    model = plain(folder or ".", name)
    tokenizer = AutoTokenizer.from_pretrained(folder or ".", gguf_file=name, padding_side="left")
    rows = len(job["prompts"]) * job["group"]
    passes = rows // job["micro"]
    counts = []

    def characters(prompts, completions, completion_ids, **kwargs):
        counts.append([sum(len(tokenizer(p)["input_ids"]) for p in prompts), sum(len(c) for c in completion_ids)])
        return [job["reward"] * len(c) for c in completions]

    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        args = trl.GRPOConfig(
            output_dir=scratch,
            use_cpu=True,
            bf16=job["bf16"],
            gradient_checkpointing=False,
            max_steps=job["steps"],
            per_device_train_batch_size=job["micro"],
            gradient_accumulation_steps=passes,
            steps_per_generation=passes,
            num_generations=job["group"],
            max_completion_length=job["new"],
            generation_kwargs={"min_new_tokens": job["new"]},
            temperature=1.0,
            beta=0.0,
            epsilon=job["clip_low"],
            epsilon_high=job["clip_high"],
            learning_rate=job["lr"],
            lr_scheduler_type="constant",
            weight_decay=job["weight_decay"],
            max_grad_norm=job["grad_clip"],
            shuffle_dataset=False,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            dataloader_pin_memory=False,
            seed=1,
        )
        lora = None
        if job["lora_rank"]:
            lora = peft.LoraConfig(
                r=job["lora_rank"], lora_alpha=job["lora_alpha"], lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
            )
        trainer = trl.GRPOTrainer(
            model=model,
            reward_funcs=characters,
            args=args,
            train_dataset=datasets.Dataset.from_dict({"prompt": texts(tokenizer, job["prompts"])}),
            processing_class=tokenizer,
            peft_config=lora,
            callbacks=[clock],
        )
        forget_peak()
        trainer.train()
        most = peak()
    if len(counts) != job["steps"] or any(c != counts[0] for c in counts):
        sys.exit(f"steps sampled different numbers of tokens, or a step was recorded twice: {counts}")
    answer = {
        "trl": trl.__version__,
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "seconds": clock.seconds,
        "prompt_tokens": counts[0][0],
        "new_tokens": counts[0][1],
        "peak_bytes": most,
    }
    print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
