set -x
MODEL=Qwen/Qwen2.5-3B
python3 -m verl.trainer.main_ppo \
  algorithm.adv_estimator=grpo \
  data.train_files=data/textcraft/train.parquet data.val_files="['data/textcraft/val.parquet']" \
  data.env_name=textcraft data.env_server_base="http://gym.local" 'data.env_ports=[36001, 36002]' \
  data.train_batch_size=512 data.max_prompt_length=4_096 data.max_response_length=500 data.max_obs_length=500 \   
  actor_rollout_ref.model.path=$MODEL/ \ # the reference policy is loaded from this path too
  actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size=32 \
  actor_rollout_ref.actor.use_kl_loss=true actor_rollout_ref.actor.kl_loss_coef=.001 actor_rollout_ref.actor.kl_loss_type=low_var_kl \
  actor_rollout_ref.ref.fsdp_config.param_offload=True \
  actor_rollout_ref.rollout.n_agent=5 actor_rollout_ref.rollout.top_p=0.95 \
  critic.model.path=$MODEL critic.optim.lr=1e-5 \
  algorithm.reward_components.length_penalty.enabled=true algorithm.reward_components.length_penalty.penalty_type=log \
  trainer.logger=[console,wandb] trainer.total_training_steps=305 \
  trainer.project_name=agents trainer.experiment_name=grpo-textcraft 'trainer.default_local_dir=out/${trainer.project_name}/${trainer.experiment_name}' \
  actor_rollout_ref.actor.optim.lrr=1 ~trainer.nnodes "$@"
