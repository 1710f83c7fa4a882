#!/usr/bin/env bash
# A start script in the form of OpenManus-RL's: settings from the environment,
# flags, servers, and a list of overrides at the end.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-1,2,3}  # which GPUs
WAND_PROJECT=${WAND_PROJECT:-'OpenManus-rl'}
export BASE_MODEL=${BASE_MODEL:-'../model/Qwen2.5-3B'}
AGENTGYM_HOST=${AGENTGYM_HOST:-'0.0.0.0'}
export PYTHONPATH="./agentenv:${PYTHONPATH}"

help() {
    echo "flags: --env_name NAME --num_servers N"
    exit 1
}

ENV_NAME="webshop"
NUM_SERVERS=1
PORT_GIVEN=""
DIR_GIVEN=""
SUFFIX=""
while [[ $# -gt 0 ]]; do
    case "$1" in
        --env_name) ENV_NAME="$2"; shift 2;;
        --num_servers) NUM_SERVERS="$2"; shift 2;;
        --base_port) PORT_GIVEN="$2"; shift 2;;
        --data_dir) DIR_GIVEN="$2"; shift 2;;
        --exp_name_suffix) SUFFIX="_$2"; shift 2;;
        *) help;;
    esac
done
if ! [[ "$NUM_SERVERS" =~ ^[1-9][0-9]*$ ]]; then help; fi

case $ENV_NAME in
    webshop)
        LAUNCH="webshop --host $AGENTGYM_HOST --port \$PORT"
        USUAL_PORT=36005;;
    weather|movie) USUAL_PORT=8000;;
    *) help;;
esac
PORTS=()
FIRST=${PORT_GIVEN:-$USUAL_PORT}
for (( i=0; i<$NUM_SERVERS; i++ )); do
    export PORT=$((FIRST + i))
    PORTS+=($PORT)
    setsid bash -c "$(eval echo $LAUNCH)" > "logs/$PORT.log" 2>&1 &
done
trap "for p in ${PORTS[*]}; do kill \$p; done" EXIT
cat <<NOTE
data.train_batch_size=999 is no setting here
NOTE

export DATA_DIR=${DIR_GIVEN:-"./data/$ENV_NAME"}
export EXPERIMENT_NAME="OpenManus-rl-ppo-${BASE_MODEL##*/}-${ENV_NAME}${SUFFIX}"
PORT_LIST=$(IFS=,; echo "${PORTS[*]}")
TRAIN_FILE="$DATA_DIR/train.parquet"
TEST_FILE="$DATA_DIR/val.parquet"

overrides=(
    "data.train_files=$TRAIN_FILE"
    "data.val_files=$TEST_FILE"
    "data.env_name=$ENV_NAME"
    "data.env_server_base=http://$AGENTGYM_HOST"
    "data.env_ports=[${PORT_LIST}]"
    "data.train_data_num=null"
    "data.val_data_num=null"
    "data.train_batch_size=3"
    "data.val_batch_size=3"
    "data.max_prompt_length=4096"
    "data.max_response_length=1000"
    "data.max_start_length=2048"
    "data.max_obs_length=1000"
    "data.shuffle_train_dataloader=True"
    "algorithm.adv_estimator=gae"
    "actor_rollout_ref.model.path=$BASE_MODEL"
    "actor_rollout_ref.actor.optim.lr=1e-6"
    "actor_rollout_ref.model.enable_gradient_checkpointing=true"
    "actor_rollout_ref.model.use_remove_padding=True"
    "actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.95"
    "actor_rollout_ref.actor.ppo_mini_batch_size=4"
    "actor_rollout_ref.actor.ppo_micro_batch_size=4"
    "actor_rollout_ref.actor.fsdp_config.param_offload=true"
    "actor_rollout_ref.actor.fsdp_config.grad_offload=true"
    "actor_rollout_ref.actor.fsdp_config.optimizer_offload=true"
    "+actor_rollout_ref.model.torch_dtype=bfloat16"
    "actor_rollout_ref.rollout.log_prob_micro_batch_size=128"
    "actor_rollout_ref.rollout.tensor_model_parallel_size=1"
    "actor_rollout_ref.rollout.name=vllm"
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6"
    "actor_rollout_ref.ref.log_prob_micro_batch_size=128"
    "actor_rollout_ref.ref.fsdp_config.param_offload=True"
    "actor_rollout_ref.rollout.n_agent=1"
    "actor_rollout_ref.rollout.temperature=1"
    "actor_rollout_ref.actor.state_masking=true"
    "critic.optim.lr=1e-5"
    "critic.model.use_remove_padding=True"
    "critic.optim.lr_warmup_steps_ratio=0.05"
    "critic.model.path=$BASE_MODEL"
    "critic.model.enable_gradient_checkpointing=true"
    "critic.ppo_micro_batch_size=4"
    "critic.model.fsdp_config.param_offload=true"
    "critic.model.fsdp_config.grad_offload=true"
    "critic.model.fsdp_config.optimizer_offload=true"
    "+critic.model.torch_dtype=bfloat16"
    "algorithm.kl_ctrl.kl_coef=0.001"
    "algorithm.no_think_rl=false"
    "algorithm.reward_score_fn=agentgym"
    "trainer.critic_warmup=0"
    "trainer.logger=['wandb']"
    "+trainer.val_only=false"
    "+trainer.val_before_train=true"
    "trainer.default_hdfs_dir=null"
    "trainer.n_gpus_per_node=3"
    "trainer.nnodes=1"
    "trainer.save_freq=1"
    "trainer.test_freq=50"
    "trainer.project_name=$WAND_PROJECT"
    "trainer.experiment_name=$EXPERIMENT_NAME"
    "trainer.total_epochs=15"
    "trainer.total_training_steps=305"
    "trainer.default_local_dir=verl_checkpoints/$EXPERIMENT_NAME"
    "max_turns=2"
)

PYTHONUNBUFFERED=1 python3 -m verl.trainer.main_ppo \
    --config-name ppo_trainer --config-path config \
    "${overrides[@]}" \
    2>&1 | tee "logs/$EXPERIMENT_NAME.log"
exit $?
