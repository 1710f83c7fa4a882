package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/cli/run"
)

func serveModelCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:      "serve",
		Usage:     "serve a model over OpenAI's HTTP API until interrupted",
		ArgsUsage: "RUN|MODEL",
		Description: "MODEL is a Hugging Face folder, a .gguf file or a model of the hub; RUN is a run folder, or RUN@CHECKPOINT.\n" +
			"Endpoints: /v1/models, /v1/chat/completions, /v1/completions, /health. Give http://ADDR/v1 to a client as base_url.\n" +
			"To serve an environment, see openmanus env serve.",
		Flags: slices.Concat(flagsOf(serveKeys()), []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8000", Usage: "`ADDR` to listen on, HOST:PORT; port 0: a free one"},
		}, serverFlags()),
	}, 1, 1, runServe)
}

// serveKeys are the flags of serve that override keys.
func serveKeys() []keyFlag {
	return slices.Concat(modelKeys()[1:], []keyFlag{
		{flag: &cli.IntFlag{Name: "max-context-tokens", Usage: "maximum tokens of prompt and reply together; 0: the model's limit, at most 8192"}, keys: "rollout.max_context_tokens"},
		{flag: &cli.IntFlag{Name: "max-sequences", Value: 16, Usage: "replies generated at once"}, keys: "rollout.max_sequences"},
	})
}

// serverFlags configure the HTTP server of a model.
func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "api-key", Usage: "`KEY` that requests must have; by default the value of the environment variable " + run.APIKeyEnv + ", which other users of the machine cannot see"},
		&cli.BoolFlag{Name: "no-api-key", Usage: "serve other machines without a key"},
		&cli.StringSliceFlag{Name: "model-name", Usage: "accept `NAME` as the name of the model too; * accepts every name"},
		&cli.IntFlag{Name: "max-queue", Value: 256, Usage: "requests that wait for their turn; further ones are refused with status 429"},
		&cli.DurationFlag{Name: "request-timeout", Value: 10 * time.Minute, Usage: "time limit of a request, with its wait"},
		&cli.DurationFlag{Name: "grace", Value: 30 * time.Second, Usage: "time that running requests have to end after an interrupt"},
	}
}

// serverOptions returns the options of serverFlags.
func (f *flagFaults) serverOptions(s *State, c *cli.Context, addr string) run.ServeOptions {
	o := run.ServeOptions{
		Addr: addr, APIKey: c.String("api-key"), Open: c.Bool("no-api-key"), OpenKey: "--no-api-key", Names: c.StringSlice("model-name"),
		Queue: c.Int("max-queue"), Timeout: c.Duration("request-timeout"), Grace: c.Duration("grace"),
	}
	f.atLeast("max-queue", o.Queue, 0)
	for _, name := range []string{"request-timeout", "grace"} {
		if d := c.Duration(name); d < 0 || d == 0 && name == "request-timeout" {
			f.add(name, "%v is not allowed; allowed: a positive time", d)
		}
	}
	switch {
	case o.Open && o.APIKey != "":
		f.add("no-api-key", "a key is given: remove one of --api-key and --no-api-key")
	case o.APIKey == "" && !o.Open && s.Getenv != nil:
		o.APIKey = strings.TrimSpace(s.Getenv(run.APIKeyEnv))
	}
	return o
}

// runServe serves a model until it is interrupted, and then succeeds.
func runServe(ctx context.Context, s *State, c *cli.Context) error {
	cfg := schema.Defaults()
	f := flagFaults{}
	f.override(c, serveKeys(), &cfg, true)
	cfg.Model.Path = c.Args().First()
	f.check(c, serveKeys(), &cfg)
	o := f.serverOptions(s, c, c.String("listen"))
	if err := f.err(); err != nil {
		return err
	}
	r, err := s.openRun(ctx, cfg, serveKeys())
	if err != nil {
		return err
	}
	o.Ready = func(url, name string) error {
		return s.print(fmt.Appendf(nil, "serving %s at %s/v1\n", name, url))
	}
	return r.Serve(s.interrupts.Hard, s.interrupts.Soft, o)
}
