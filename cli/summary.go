package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// Summaries in the format history: who writes them, as flags and as keys say
// it. OpenManus-RL has flags of these names for evaluation alone (spec 11.5);
// here the key is never one of them.

// summaryFlags returns the flags behind taskOptions.Summary, named after the
// keys of [agent.summary].
func summaryFlags() []cli.Flag {
	usual := configs.Defaults().Agent.Summary
	return []cli.Flag{
		&cli.BoolFlag{Name: "use-summary", Usage: "the format history shows a summary of the past, written by another model, in place of past turns"},
		&cli.StringFlag{Name: "summary-base-url", Usage: "`URL` of the OpenAI-compatible endpoint that writes summaries"},
		&cli.StringFlag{Name: "summary-model", Value: usual.Model, Usage: "`NAME` by which that endpoint knows the model"},
		&cli.StringFlag{Name: "summary-key-env", Value: usual.KeyEnv, Usage: "environment `VARIABLE` that holds that endpoint's key; none is sent if it is empty"},
		&cli.IntFlag{Name: "summary-concurrency", Value: usual.Concurrency, Usage: "summaries asked for at once"},
		&cli.Float64Flag{Name: "summary-timeout", Value: usual.TimeoutS, Usage: "seconds one summary may take"},
		&cli.IntFlag{Name: "summary-max-tokens", Value: usual.MaxTokens, Usage: "tokens one summary may have"},
		&cli.Float64Flag{Name: "summary-temperature", Value: usual.Temperature, Usage: "of their sampling"},
	}
}

// parseSummary reads the flags of summaryFlags; nil where no summaries are
// shown. Their values have the bounds of the keys.
func parseSummary(c *cli.Context, f *flagFaults, format string, deterministic bool) *configs.Summary {
	if !c.Bool("use-summary") {
		for _, flag := range summaryFlags()[1:] {
			if name := flag.Names()[0]; c.IsSet(name) {
				f.add(name, "it says who writes summaries, and none are shown: give --use-summary, or take it out")
			}
		}
		return nil
	}
	o := &configs.Summary{
		Model: c.String("summary-model"), KeyEnv: c.String("summary-key-env"), Concurrency: c.Int("summary-concurrency"),
		TimeoutS: c.Float64("summary-timeout"), MaxTokens: c.Int("summary-max-tokens"), Temperature: c.Float64("summary-temperature"),
	}
	if format != env.FormatHistory {
		f.add("use-summary", "format %s shows no summaries: give --format %s, or --use-summary=false", format, env.FormatHistory)
	}
	if deterministic {
		f.add("use-summary", "no endpoint promises to repeat itself: take out --deterministic, or give --use-summary=false")
	}
	if url := c.String("summary-base-url"); f.need("summary-base-url", url, "the address of the endpoint that writes summaries") {
		var err error
		if o.BaseURL, err = openai.BaseURL(url); err != nil {
			f.add("summary-base-url", "%v", err)
		}
	}
	f.need("summary-model", o.Model, "the name by which the endpoint knows the model")
	f.keyEnv("summary-key-env", o.KeyEnv)
	for _, x := range []struct {
		flag, key string
		value     any
	}{
		{"summary-concurrency", "concurrency", int64(o.Concurrency)},
		{"summary-timeout", "timeout_s", o.TimeoutS},
		{"summary-max-tokens", "max_tokens", int64(o.MaxTokens)},
		{"summary-temperature", "temperature", o.Temperature},
	} {
		if msg := configs.CheckValue("agent.summary."+x.key, x.value); msg != "" {
			f.add(x.flag, "%s", msg)
		}
	}
	return o
}

// summariesOf are the flags of the summaries of a configured environment.
func summariesOf(cfg configs.Config, e configs.Env) []flagValue {
	if !e.UseSummary {
		return nil
	}
	o := cfg.Agent.Summary
	return []flagValue{
		{"use-summary", switchedOn}, {"summary-base-url", o.BaseURL}, {"summary-model", o.Model}, {"summary-key-env", o.KeyEnv},
		{"summary-concurrency", strconv.Itoa(o.Concurrency)}, {"summary-timeout", number(o.TimeoutS)},
		{"summary-max-tokens", strconv.Itoa(o.MaxTokens)}, {"summary-temperature", number(o.Temperature)},
	}
}

// summaryParts are what decides about the words of summaries, as far as it is
// known here: who serves the model of that name is for the user to know, as it
// is where an endpoint plays.
func summaryParts(o *configs.Summary) map[string]string {
	return map[string]string{
		"summary_model": o.Model, "summary_max_tokens": strconv.Itoa(o.MaxTokens), "summary_temperature": number(o.Temperature),
	}
}

// summaryInDumps says, in the header of a dump, who wrote the summaries, if
// anybody did.
func summaryInDumps(o *configs.Summary, options map[string]any) {
	if o == nil {
		return
	}
	options["use_summary"], options["summary_base_url"] = true, o.BaseURL
	options["summary_model"], options["summary_max_tokens"], options["summary_temperature"] = o.Model, o.MaxTokens, o.Temperature
}

// openSummarizer talks to the endpoint that writes summaries, until open is
// closed. It asks once, so that one which cannot be used is found out before
// anything is played.
func (s *State) openSummarizer(ctx context.Context, open *closers, o configs.Summary) (agent.Summarizer, error) {
	key := s.Getenv(o.KeyEnv)
	s.warnOfOpenKey(o.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: o.BaseURL, Model: o.Model, Key: key, Concurrency: o.Concurrency, Timeout: seconds(o.TimeoutS), Log: s.Log,
	})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("the endpoint of summaries (agent.summary): %w", err))
	}
	open.addFunc(client.Close)
	if err := client.Check(ctx, openai.Request{Temperature: o.Temperature}); err != nil {
		return nil, fmt.Errorf("the endpoint of summaries (agent.summary): %w", err)
	}
	return &openai.Summarizer{Client: client, MaxTokens: o.MaxTokens, Temperature: o.Temperature}, nil
}
