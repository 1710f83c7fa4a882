#!/usr/bin/env bash
# train.sh ALGORITHM [FLAGS]: what train_ppo.sh and train_grpo.sh share. It turns
# the flags and variables of OpenManus-RL's scripts into one command,
# openmanus train with a preset, and becomes it: the servers are started and
# ended by openmanus, and its exit code is the script's.
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
  --base_port P           port of the first, the others have those after it (default: the environment's)
  --data_dir DIR          folder with train.parquet and val.parquet (default: the tasks of the preset)
  --exp_name_suffix S     appended to the experiment's name after an underscore
  --checkout DIR          AgentGym's checkout, whose servers are started (default: AGENTGYM_CHECKOUT)
  --attach                use servers that run already, on AGENTGYM_HOST
  --original              take the batch sizes, group size, warm-up, lengths and turns of OpenManus-RL's script, which
                          are not the preset's
  --dry-run               print the command instead of running it
  --help                  this text

maze and wordle need no checkout: without one, and without --attach, the built-in server plays, one
for all episodes on a port that is free. textcraft is built in too, but the rows of its preset go
beyond the built-in book of recipes.
Whatever follows -- goes to openmanus train: -- --set actor.optim.lr=1e-5 --device cpu

environment variables:
  BASE_MODEL              folder of the model, a .gguf file, or the name of a Hugging Face hub model that hf download has
                          put into the local cache (default: the preset's)
  AGENTGYM_HOST           where the servers are; another machine than this one means --attach
  AGENTGYM_CHECKOUT       see --checkout
  AGENTGYM_SQL_BIRD_PATH  folder of the BIRD data, for sqlgym
  AGENTENV_PYTHON         interpreter of the servers (default: that of the conda environment agentenv-NAME, else that of openmanus env install)
  WANDB_NAME              name of the experiment, which is its folder under runs (default: OpenManus-rl-ALGORITHM-MODEL-ENVIRONMENT)
  CUDA_VISIBLE_DEVICES    the first of them is used
  OPENMANUS               the program (default: build/openmanus beside this script, else the one in PATH)
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
  *) wrong "--env_name $name is none of: $envs" ;;
esac
is_number() { [[ $1 =~ ^[1-9][0-9]{0,4}$ ]]; }
given=''
[ -z "$servers" ] || given=--num_servers
[ -z "$port" ] || given+=${given:+ and }--base_port
[ -n "$servers" ] || servers=1
is_number "$servers" || wrong "--num_servers $servers is not a positive number"
if [ -z "$port" ]; then
  case $algorithm-$name in
    ppo-webshop) port=36005 ;;
    *-webarena | *-weather | *-movie | *-academia | *-todo | *-sheet | *-gaia) port=8000 ;;
    *-sqlgym) port=36002 ;;
    *) port=36001 ;;
  esac
fi
is_number "$port" || wrong "--base_port $port is not a port"

# ---- the program

program=${OPENMANUS:-}
[ -n "$program" ] || { [ -x "$root/build/openmanus" ] && program=$root/build/openmanus; } || program=$(command -v openmanus) || {
  note "there is no $root/build/openmanus: run $root/build.sh, or set OPENMANUS"
  exit 2
}

toml() { # toml TEXT: the text as a TOML string
  local s=${1//\\/\\\\}
  printf '"%s"' "${s//\"/\\\"}"
}

args=(train --preset "$algorithm" --env "$name")
set_key() { args+=(--set "$1=$2"); }

# ---- what OpenManus-RL's script sets otherwise than the preset

# A step of its PPO has 3 episodes, fewer than its mini-batch of 4: the whole step is one.
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
  note "OpenManus-RL's script has other values than the preset $algorithm; --original takes them: ${theirs[*]}"
fi

# ---- the model, and names

model=${BASE_MODEL:-}
[ -z "$model" ] || set_key model.path "$(toml "${model%/}")"
label=${model%/}
label=${label##*/}
set_key trainer.experiment "$(toml "${WANDB_NAME:-OpenManus-rl-$algorithm${label:+-$label}-$name}")"
[ -z "$suffix" ] || set_key trainer.experiment_suffix "$(toml "$suffix")"
for variable in WANDB_PROJECT WAND_PROJECT WANDB_API_KEY WANDB_MODE WANDB_ENTITY WANDB_DIR WANDB_BASE_URL WANDB_RUN_ID WANDB_RUN_GROUP WANDB_TAGS WANDB_NOTES WANDB_JOB_TYPE WANDB_RESUME; do
  [ "$variable=${!variable:-}" != WANDB_MODE=disabled ] || continue # as it is
  [ -z "${!variable:-}" ] ||
    note "$variable is not used, nothing is sent to wandb: every metric is in runs/EXPERIMENT/metrics.jsonl (docs/metrics.md)"
done
case ${CUDA_VISIBLE_DEVICES:-} in
  *,*) note "CUDA_VISIBLE_DEVICES names several devices: the first is used" ;;
esac

# ---- the data

if [ -n "$data" ]; then
  [ -f "$data/train.parquet" ] || {
    note "there is no $data/train.parquet: give --data_dir a folder that has one (openmanus data convert ROWS.jsonl $data/train.parquet makes it)," \
      "or leave it out for the tasks of the preset (openmanus config show --env $name)"
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
    note "there is neither val.parquet nor test.parquet in $data: validation plays the tasks of the preset"
  fi
elif [ ! -f "data/$name/train.parquet" ] && [[ $* != *env.$name.tasks* ]] &&
  grep -qs "^tasks = .*data/$name/train.parquet" "$root/configs/presets/env/$name.toml"; then
  note "there is no data/$name/train.parquet, whose rows the preset of $name plays: put OpenManus-RL's there, give --data_dir DIR," \
    "or name tasks by their indices, as in -- --set env.$name.tasks=0-199"
fi

# ---- the servers

host=${AGENTGYM_HOST:-0.0.0.0}
case $host in
  0.0.0.0 | localhost | ::) host=127.0.0.1 ;;
esac
[ "$host" = 127.0.0.1 ] || attach=yes
if [ -n "$attach" ]; then
  [ -z "$checkout" ] || note "servers on $host are used, none is started from $checkout"
  list=''
  for ((i = 0; i < servers; i++)); do
    list+=${list:+, }$(toml "http://$host:$((port + i))")
  done
  set_key "env.$name.servers" "[$list]"
elif [ -z "$checkout" ]; then
  case $name in
    maze | wordle) # built in
      [ -z "$given" ] || note "$given: the built-in server plays all episodes, on a port that is free; give --checkout or --attach for servers of AgentGym"
      ;;
    *) wrong "$name needs --checkout DIR of AgentGym to start its servers from, or --attach to use those that run" ;;
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
