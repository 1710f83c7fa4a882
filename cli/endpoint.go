package cli

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/engine"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/agent/text"
	"github.com/openmanus/openmanus/internal/errext"
)

// endpointOptions say which OpenAI-compatible endpoint plays in place of a
// model of this process.
type endpointOptions struct {
	BaseURL     string
	Model       string
	KeyEnv      string // environment variable that holds the key
	Concurrency int    // requests at once; 0: as many as episodes
	TimeoutS    float64
	Retries     int
}

// defaultKeyEnv is where everybody keeps the key.
const defaultKeyEnv = "OPENAI_API_KEY"

// endpointFlags returns the flags behind endpointOptions. None takes a key:
// command lines are seen by others and kept in histories.
func endpointFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "base-url", Usage: "`URL` of an OpenAI-compatible endpoint that plays instead of --model, such as http://127.0.0.1:8000/v1"},
		&cli.StringFlag{Name: "api-model", Usage: "`NAME` by which the endpoint knows the model"},
		&cli.StringFlag{Name: "api-key-env", Value: defaultKeyEnv, Usage: "environment `VARIABLE` that holds the endpoint's key; none is sent if it is empty"},
		&cli.IntFlag{Name: "api-concurrency", Usage: "requests to the endpoint at once; 0: as many as episodes"},
		&cli.Float64Flag{Name: "api-timeout", Value: 120, Usage: "seconds one request to the endpoint may take"},
		&cli.IntFlag{Name: "api-retries", Value: 5, Usage: "tries after the first, on 429, 5xx and broken replies"},
	}
}

// parseEndpoint reads the flags of endpointFlags; nil where a model of this
// process plays. It also refuses the flags of the model that mean nothing then.
func parseEndpoint(c *cli.Context, f *flagFaults) *endpointOptions {
	if c.String("base-url") == "" {
		for _, flag := range endpointFlags() {
			if name := flag.Names()[0]; c.IsSet(name) {
				f.add(name, "it says how an endpoint is asked, and there is none: give --base-url, or take it out")
			}
		}
		return nil
	}
	o := &endpointOptions{
		Model: c.String("api-model"), KeyEnv: c.String("api-key-env"), Concurrency: c.Int("api-concurrency"),
		TimeoutS: c.Float64("api-timeout"), Retries: c.Int("api-retries"),
	}
	var err error
	if o.BaseURL, err = openai.BaseURL(c.String("base-url")); err != nil {
		f.add("base-url", "%v", err)
	}
	f.need("api-model", o.Model, "the name by which the endpoint knows the model")
	f.keyEnv("api-key-env", o.KeyEnv)
	f.atLeast("api-concurrency", o.Concurrency, 0)
	f.atLeast("api-retries", o.Retries, 0)
	if !(o.TimeoutS > 0 && o.TimeoutS <= 86400) {
		f.add("api-timeout", "%v is not allowed; allowed: above 0, at most 86400 seconds", o.TimeoutS)
	}
	for flag, why := range map[string]string{
		"model":          "the endpoint of --base-url plays, whose model is named by --api-model",
		"device":         "the endpoint has its own",
		"dtype":          "the endpoint has its own",
		"deterministic":  "no endpoint promises to repeat itself",
		"max-obs-tokens": "an endpoint does not tell its tokens, so an observation cannot be measured in them",
	} {
		if c.IsSet(flag) {
			f.add(flag, "%s: take it out", why)
		}
	}
	return o
}

// keyEnv takes the name of the variable that holds a key, and no key.
func (f *flagFaults) keyEnv(flag, name string) {
	f.need(flag, name, "the name of an environment variable, such as "+defaultKeyEnv)
	if strings.HasPrefix(name, "sk-") {
		f.add(flag, "this looks like a key: put it into an environment variable, and give the variable's name")
	}
}

// openEndpoint makes the client, finds out whether the endpoint can be played
// with, and completes p with an engine over it.
func (s *State) openEndpoint(ctx context.Context, p *playing, o taskOptions) error {
	e := o.Endpoint
	key := s.Getenv(e.KeyEnv)
	s.warnOfOpenKey(e.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: e.BaseURL, Model: e.Model, Key: key, Concurrency: cmp.Or(e.Concurrency, o.Concurrency),
		Timeout: seconds(e.TimeoutS), Attempts: e.Retries + 1, Log: s.Log,
	})
	if err != nil {
		return errext.With(errext.Input, "", err)
	}
	p.endpoint = client
	p.open.addFunc(client.Close)
	options := p.env.Setup.Options
	if err := client.Check(ctx, openai.RequestOf(engine.Params{
		Temperature: options.Temperature, Greedy: options.Greedy, TopP: options.TopP, TopK: options.TopK,
	})); err != nil {
		return err
	}
	p.env.Setup.Engine = &text.Engine{Speaker: &openai.Speaker{Client: client, MaxContext: o.MaxContextTokens}}
	p.env.Setup.Renderer = text.Renderer{}
	p.env.Setup.NoIDs = true
	// Lengths in ids are bytes here: the Speaker watches the tokens.
	p.env.Setup.Options.MaxContext = math.MaxInt32
	return nil
}

// warnOfOpenKey warns of a key that others on the network can read.
func (s *State) warnOfOpenKey(address, key string) {
	if u, err := url.Parse(address); err == nil && key != "" && u.Scheme == "http" && !local(u.Hostname()) {
		s.Log.Warn("the key goes over the network unencrypted: use an https:// address", "host", u.Host)
	}
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// engineOpenAI is the engine of a dump that an endpoint played.
const engineOpenAI = "openai"

// inDumps says, in the header of a dump, who played.
func (e *endpointOptions) inDumps(options map[string]any) {
	if e != nil {
		options["engine"], options["base_url"], options["api_model"] = engineOpenAI, e.BaseURL, e.Model
	}
}
