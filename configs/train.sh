#!/usr/bin/env bash
# train.sh ALGORITHM [FLAGS]: the common part of train_ppo.sh and train_grpo.sh.
# It converts the flags and variables of OpenManus-RL's scripts into a command
# line of openmanus train with a preset, and replaces itself with that command.
# openmanus starts and stops the servers.
set -euo pipefail

algorithm=$1
shift
root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
envs="academia alfworld babyai gaia maze movie sciworld searchqa sheet sqlgym textcraft todo weather webarena webshop wordle"

usage() {
  cat <<USAGE
usage: train_$algorithm.sh [--env_name NAME] [FLAGS] [-- FLAGS OF openmanus train]

  --env_name NAME         $envs (default: webshop)
  --num_servers N         servers to start, or to use with --attach (default: 1)
  --base_port P           port of the first server; the others use the ports after it (default: the environment's)
  --data_dir DIR          folder with train.parquet and val.parquet (default: the tasks of the preset)
  --exp_name_suffix S     appended to the experiment's name after an underscore
  --checkout DIR          AgentGym's checkout, whose servers are started (default: AGENTGYM_CHECKOUT)
  --attach                use running servers on AGENTGYM_HOST
  --original              use the batch sizes, group size, warm-up, lengths and turns of OpenManus-RL's script, which
                          differ from those of the preset
  --dry-run               print the command instead of running it
  --help                  print this text

maze, textcraft and wordle need no checkout: without --checkout and --attach, one built-in server on a free
port serves all episodes. The built-in textcraft server does not have all recipes of OpenManus-RL's rows, so
--data_dir needs a checkout there.
The flags after -- are passed to openmanus train: -- --set actor.optim.lr=1e-5 --device cpu

environment variables:
  BASE_MODEL              folder of the model, a .gguf file, or the name of a Hugging Face hub model in the local cache,
                          where hf download puts it (default: the preset's)
  AGENTGYM_HOST           host of the servers; another machine implies --attach
  AGENTGYM_CHECKOUT       see --checkout
  AGENTGYM_SQL_BIRD_PATH  folder of the BIRD data, for sqlgym
  AGENTENV_PYTHON         Python interpreter of the servers (default: that of the conda environment agentenv-NAME, else that of openmanus env install)
  WANDB_NAME              name of the experiment and of its folder under runs (default: OpenManus-rl-ALGORITHM-MODEL-ENVIRONMENT)
  CUDA_VISIBLE_DEVICES    the first device is used
  OPENMANUS               the program (default: build/openmanus of this repository, else openmanus in PATH)
USAGE
}

note() { printf '%s\n' "train_$algorithm.sh: $*" >&2; }
wrong() {
  note "$*; --help lists the flags"
  exit 2
}

name=webshop servers='' port='' data='' suffix='' checkout=${AGENTGYM_CHECKOUT:-} attach='' original='' dry=''
while [ $# -gt 0 ]; do
  flag=$1
  value=''
  case $flag in
    --help | -h)
      usage
      exit 0
      ;;
    --attach | --original | --dry-run | --) ;;
    --*=*)
      value=${flag#*=}
      flag=${flag%%=*}
      ;;
    --env_name | --num_servers | --base_port | --data_dir | --exp_name_suffix | --checkout)
      [ $# -ge 2 ] || wrong "$flag needs a value"
      value=$2
      shift
      ;;
  esac
  shift
  case $flag in
    --env_name) name=$value ;;
    --num_servers) servers=$value ;;
    --base_port) port=$value ;;
    --data_dir) data=$value ;;
    --exp_name_suffix) suffix=$value ;;
    --checkout) checkout=$value ;;
    --attach) attach=yes ;;
    --original) original=yes ;;
    --dry-run) dry=yes ;;
    --) break ;;
    *) wrong "unknown flag $flag" ;;
  esac
done

case " $envs " in
  *" $name "*) ;;
  *) wrong "unknown environment --env_name $name; use one of: $envs" ;;
esac
is_number() { [[ $1 =~ ^[1-9][0-9]{0,4}$ ]]; }
given=''
[ -z "$servers" ] || given=--num_servers
[ -z "$port" ] || given+=${given:+ and }--base_port
[ -n "$servers" ] || servers=1
is_number "$servers" || wrong "--num_servers $servers must be a number from 1 to 99999"
if [ -z "$port" ]; then
  case $algorithm-$name in
    ppo-webshop) port=36005 ;;
    *-webarena | *-weather | *-movie | *-academia | *-todo | *-sheet | *-gaia) port=8000 ;;
    *-sqlgym) port=36002 ;;
    *) port=36001 ;;
  esac
fi
is_number "$port" || wrong "--base_port $port is not a port number"

# ---- the program

program=${OPENMANUS:-}
[ -n "$program" ] || { [ -x "$root/build/openmanus" ] && program=$root/build/openmanus; } || program=$(command -v openmanus) || {
  note "$root/build/openmanus does not exist: run $root/build.sh, or set OPENMANUS"
  exit 2
}

toml() { # toml TEXT: prints the text as a TOML string
  local s=${1//\\/\\\\}
  printf '"%s"' "${s//\"/\\\"}"
}

args=(train --preset "$algorithm" --env "$name")
set_key() { args+=(--set "$1=$2"); }

# ---- settings of OpenManus-RL's script that differ from the preset

# A PPO step of the script has 3 episodes but a mini-batch size of 4; here 0 makes the step one mini-batch.
theirs=(actor.optim.warmup_ratio=0.95 "env.$name.max_turns=2" actor.entropy_coef=0.001 actor.clip_ratio_high=0.2)
case $algorithm in
  ppo) theirs+=(data.train_batch_size=3 actor.mini_batch_size=0 critic.mini_batch_size=0 trainer.critic_warmup=0 rollout.max_new_tokens=1000
    rollout.max_context_tokens=5096 trainer.save_every=1 trainer.test_every=50) ;;
  grpo) theirs+=(data.train_batch_size=512 rollout.group_size=5 actor.mini_batch_size=32 rollout.max_new_tokens=500
    rollout.max_context_tokens=4596 agent.max_obs_tokens=500 trainer.save_every=100 trainer.test_every=50) ;;
esac
if [ -n "$original" ]; then
  for key in "${theirs[@]}"; do
    set_key "${key%%=*}" "${key#*=}"
  done
else
  note "these values of OpenManus-RL's script differ from the preset $algorithm; --original sets them: ${theirs[*]}"
fi

# ---- the model and the names

model=${BASE_MODEL:-}
[ -z "$model" ] || set_key model.path "$(toml "${model%/}")"
label=${model%/}
label=${label##*/}
set_key trainer.experiment "$(toml "${WANDB_NAME:-OpenManus-rl-$algorithm${label:+-$label}-$name}")"
[ -z "$suffix" ] || set_key trainer.experiment_suffix "$(toml "$suffix")"
for variable in WANDB_PROJECT WAND_PROJECT WANDB_API_KEY WANDB_MODE WANDB_ENTITY WANDB_DIR WANDB_BASE_URL WANDB_RUN_ID WANDB_RUN_GROUP WANDB_TAGS WANDB_NOTES WANDB_JOB_TYPE WANDB_RESUME; do
  [ "$variable=${!variable:-}" != WANDB_MODE=disabled ] || continue # wandb is disabled here anyway
  [ -z "${!variable:-}" ] ||
    note "$variable is ignored: metrics are not sent to wandb but written to runs/EXPERIMENT/metrics.jsonl (docs/tracking.md explains how to upload them)"
done
case ${CUDA_VISIBLE_DEVICES:-} in
  *,*) note "CUDA_VISIBLE_DEVICES names several devices; only the first is used" ;;
esac

# ---- the data

if [ -n "$data" ]; then
  [ -f "$data/train.parquet" ] || {
    note "$data/train.parquet does not exist: set --data_dir to a folder that contains it (openmanus data convert ROWS.jsonl $data/train.parquet writes it)," \
      "or omit --data_dir to use the tasks of the preset (openmanus config show --env $name)"
    exit 3
  }
  set_key "env.$name.tasks" "[$(toml "$data/train.parquet")]"
  val=''
  for split in test val; do
    [ ! -f "$data/$split.parquet" ] || val=$data/$split.parquet
  done
  if [ -n "$val" ]; then
    set_key "env.$name.val_tasks" "[$(toml "$val")]"
  else
    note "$data has neither val.parquet nor test.parquet; the validation tasks of the preset are used"
  fi
elif [[ $* != *env.$name.tasks* ]]; then
  rows=data/$name/train.parquet reads=''
  ! grep -qs "^tasks = \[\"$rows" "$root/configs/presets/env/$name.toml" || reads=yes
  if [ -n "$reads" ] && [ ! -f "$rows" ]; then
    note "the preset of $name reads $rows, which does not exist: copy OpenManus-RL's file there, set --data_dir DIR," \
      "or give the tasks as indices: -- --set env.$name.tasks=0-199"
  elif [ -z "$reads" ] && [ -f "$rows" ]; then
    note "the preset of $name does not read $rows: set --data_dir data/$name to train on it"
  fi
fi

# ---- the servers

host=${AGENTGYM_HOST:-0.0.0.0}
case $host in
  0.0.0.0 | localhost | ::) host=127.0.0.1 ;;
esac
[ "$host" = 127.0.0.1 ] || attach=yes
if [ -n "$attach" ]; then
  [ -z "$checkout" ] || note "using the running servers on $host; the checkout $checkout is not used"
  list=''
  for ((i = 0; i < servers; i++)); do
    list+=${list:+, }$(toml "http://$host:$((port + i))")
  done
  set_key "env.$name.servers" "[$list]"
elif [ -z "$checkout" ]; then
  case $name$data in
    maze* | wordle* | textcraft) # built in
      [ -z "$given" ] || note "ignored: $given; one built-in server on a free port serves all episodes; set --checkout or --attach to use AgentGym's servers"
      ;;
    *) wrong "$name needs --checkout DIR, an AgentGym checkout to start servers from, or --attach to use running servers" ;;
  esac
else
  set_key "env.$name.servers" "[]"
  set_key "env.$name.launch" true
  set_key "env.$name.checkout" "$(toml "$checkout")"
  set_key "env.$name.num_servers" "$servers"
  set_key "env.$name.base_port" "$port"
  python=${AGENTENV_PYTHON:-}
  if [ -z "$python" ] && command -v conda >/dev/null 2>&1; then
    python=$(conda info --base)/envs/agentenv-$name/bin/python
    if [ -x "$python" ]; then
      note "servers run with $python"
    else
      python=''
    fi
  fi
  [ -z "$python" ] || set_key "env.$name.python" "$(toml "$python")"
  if [ "$name" = sqlgym ]; then
    [ -n "${AGENTGYM_SQL_BIRD_PATH:-}" ] || wrong "sqlgym needs AGENTGYM_SQL_BIRD_PATH, the folder of the BIRD data"
    set_key env.sqlgym.environment "{AGENTENV_SQLGYM_BIRD_PATH = $(toml "$AGENTGYM_SQL_BIRD_PATH")}"
  fi
fi

if [ -n "$dry" ]; then
  printf '%q' "$program"
  printf ' %q' "${args[@]}" "$@"
  printf '\n'
  exit 0
fi
exec "$program" "${args[@]}" "$@"
