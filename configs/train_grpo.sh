#!/usr/bin/env bash
# GRPO on an AgentGym environment: takes the flags and variables of
# OpenManus-RL's script of this name. --help lists them.
set -euo pipefail
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/train.sh" grpo "$@"
