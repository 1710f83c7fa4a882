#!/usr/bin/env bash
# PPO with a critic on an AgentGym environment, with the flags and variables of
# OpenManus-RL's script of the same name. --help lists them.
set -euo pipefail
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/train.sh" ppo "$@"
