#!/bin/sh
# Creates the files of this folder with the program of an earlier version:
#
#	sh make.sh PROGRAM
#
# The version of commit da5e8c8 created the files. Do not create them with a
# newer version: TestVersionBefore checks that files of that version can be read.
set -e
program=$1
cd "$(dirname "$0")"
rm -rf runs dump.jsonl
"$program" train run.toml
"$program" rollout run.toml --model runs/tiny/checkpoints/step_000002/actor --samples 2 --deterministic --dump dump.jsonl
# A resumed run needs the checkpoint, the metrics and the frozen reference.
rm -rf runs/tiny/latest runs/tiny/rollouts runs/tiny/run.log runs/tiny/config.toml runs/tiny/servers runs/tiny/checkpoints/step_000000
rm -f runs/tiny/.lock
