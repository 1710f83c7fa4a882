#!/bin/sh
# Makes the pictures of this folder: the report of two runs, and the dashboard of a run that is training.
#
#   docs/pictures/make.sh [RUN RUN]
#
# Without runs it first trains them: the quickstart with GRPO and with RLOO, with the KL and the entropy measured, which
# takes about ten minutes. The pictures of the dashboard need eight steps of another run.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
program=${OPENMANUS:-$root/build/openmanus}
work=$(mktemp -d)
train=
trap 'test -z "$train" || kill "$train"; rm -rf "$work"' EXIT
measured="--set actor.calculate_entropy=true --set actor.use_kl_loss=true"

if test $# -eq 0; then
	for estimator in grpo rloo; do
		# shellcheck disable=SC2086
		(cd "$work" && "$program" train $measured --set algo.adv_estimator=$estimator --set trainer.experiment=$estimator)
	done
	set -- "$work/runs/grpo" "$work/runs/rloo"
fi
"$program" report "$@" --html "$work/report.html" --episodes 0
(cd "$root" && go build -o "$work/pictures" ./docs/pictures)
"$work/pictures" -report "$work/report.html" -out "$root/docs/pictures"

mkdir "$work/live"
cd "$work/live"
# shellcheck disable=SC2086
"$program" train --dashboard 0 $measured --set trainer.experiment=quickstart 2>"$work/train.log" &
train=$!
until grep -q '"step":8,"phase":"train"' runs/quickstart/metrics.jsonl 2>/dev/null; do
	kill -0 "$train"
	sleep 1
done
"$work/pictures" -dashboard "$(sed -n 's/^dashboard at //p' "$work/train.log")" -out "$root/docs/pictures"
