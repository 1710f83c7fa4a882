package run

import (
	"context"
	"fmt"
	"net"
	"net/url"

	"github.com/openmanus/openmanus/agent"
	"github.com/openmanus/openmanus/agent/openai"
	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/internal/errext"
)

// OpenFormat returns the prompt format of an [[env]] table. If the format uses an
// endpoint of summaries, the function that disconnects is added to the parameter open.
func OpenFormat(ctx context.Context, h *Host, open *Closers, spec env.Spec, cfg configs.Config, e configs.Env) (agent.Format, error) {
	if spec.Prompts {
		return agent.Plain{}, nil
	}
	o := agent.FormatOptions{HistoryLength: e.HistoryLength, MemoryFile: h.Path(e.MemoryFile)}
	if e.UseSummary {
		s := cfg.Agent.Summary
		client, err := openClient(ctx, h, open, s.KeyEnv, openai.Options{
			BaseURL: s.BaseURL, Model: s.Model, Concurrency: s.Concurrency, Timeout: Seconds(s.TimeoutS),
		}, openai.Request{Temperature: s.Temperature})
		if err != nil {
			return nil, fmt.Errorf("the endpoint of summaries (agent.summary): %w", err)
		}
		o.Summarizer = &openai.Summarizer{Client: client, MaxTokens: s.MaxTokens, Temperature: s.Temperature}
	}
	f, err := agent.FormatFor(e.Format, spec, o)
	return f, errext.With(errext.Input, "", err)
}

// openClient connects to an endpoint with the key in the environment variable
// keyEnv, and sends a first request to check that the endpoint can be used. The
// function that closes the connection is added to the parameter open.
func openClient(ctx context.Context, h *Host, open *Closers, keyEnv string, o openai.Options, first openai.Request) (*openai.Client, error) {
	o.Key, o.Log = h.Getenv(keyEnv), h.Log
	if u, err := url.Parse(o.BaseURL); err == nil && o.Key != "" && u.Scheme == "http" && !local(u.Hostname()) {
		h.Log.Warn("the key crosses the network unencrypted: use an https:// address", "host", u.Host)
	}
	client, err := openai.New(o)
	if err != nil {
		return nil, errext.With(errext.Input, "", err)
	}
	open.AddFunc(client.Close)
	return client, client.Check(ctx, first)
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadInstruction returns the contents of file, or text if file is "".
func ReadInstruction(h *Host, text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	b, err := h.ReadFile(file, MaxInstruction)
	if err != nil {
		return "", errext.With(errext.Input, "give a text file", fmt.Errorf("instruction file: %w", err))
	}
	return string(b), nil
}

// MaxInstruction bounds the size in bytes of an instruction file.
const MaxInstruction = 1 << 20
