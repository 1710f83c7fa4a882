package run

import (
	"context"
	"errors"

	"github.com/openmanus/openmanus/agent/eval"
	"github.com/openmanus/openmanus/agent/rollout"
	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
	"github.com/openmanus/openmanus/internal/errext"
)

// EvalOptions are the options of Eval that are not configuration keys.
type EvalOptions struct {
	PlayOptions
	Program  string // version of the program, part of the contract
	Episodes string // dump of the episodes; "": none
	DryRun   bool   // open everything, and return a result with the contract only
}

// Eval plays every task of the environment and returns the success rates, with
// the contract that lists the conditions.
func (r *Run) Eval(ctx context.Context, o EvalOptions) (result eval.Result, err error) {
	p, err := r.openPlayer(ctx, o.PlayOptions, "")
	defer func() { err = errors.Join(err, p.close()) }()
	if err != nil {
		return result, err
	}
	var contract eval.Contract
	err = r.host.Ranks.OnFirst(ctx, func() (err error) {
		contract, err = p.contract(ctx, o.Program)
		return err
	})
	if err != nil || o.DryRun {
		return eval.Result{Contract: contract}, err
	}
	weights, err := p.weights(ctx)
	if err != nil {
		return result, err
	}
	var episodes []*data.Episode
	var met eval.Infrastructure
	err = p.lead(ctx, func() (err error) {
		episodes, met, err = p.evaluate(ctx, o, weights, contract)
		return err
	})
	if err != nil || !r.host.Ranks.First() {
		return result, err
	}
	result = eval.New(p.cfg.Env[0].Name, eval.Tasks(episodes, p.world.Spec.Family), p.samples(), p.cfg.Trainer.Seed)
	result.Model, result.Weights, result.Contract, result.Infrastructure = p.cfg.Model.Path, weights, contract, met
	if p.endpoint != nil {
		result.Model, result.Usage = p.cfg.Rollout.API.Model, p.endpoint.Usage()
	}
	return result, nil
}

// evaluate plays the tasks and writes the episodes to the dump o.Episodes.
func (p *player) evaluate(ctx context.Context, o EvalOptions, weights string, contract eval.Contract) (episodes []*data.Episode, met eval.Infrastructure, err error) {
	onEpisode := func(*data.Episode) error { return nil }
	if o.Episodes != "" {
		options := p.dumpOptions()
		options["contract"] = contract
		var out *dump.Writer
		if out, err = dump.Create(p.host.Path(o.Episodes), dump.Header{Weights: weights, Options: options}); err != nil {
			return nil, met, errext.With(errext.Disk, "", err)
		}
		defer func() { err = errors.Join(err, errext.With(errext.Disk, "", out.Close())) }()
		onEpisode = func(ep *data.Episode) error { return errext.With(errext.Disk, "", out.Write(ep)) }
	}
	return p.play(ctx, o.PlayOptions, func(ro *rollout.Options) { ro.OnEpisode = onEpisode })
}
