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

// FormatOptions say in which format replies are written and prompts shown.
type FormatOptions struct {
	Name          string
	HistoryLength int
	MemoryFile    string
	Summary       *configs.Summary // nil: no summaries
}

// FormatOf are those of a configured environment.
func FormatOf(cfg configs.Config, e configs.Env) FormatOptions {
	o := FormatOptions{Name: e.Format, HistoryLength: e.HistoryLength, MemoryFile: e.MemoryFile}
	if e.UseSummary {
		o.Summary = &cfg.Agent.Summary
	}
	return o
}

// OpenFormat opens a format for an environment. What it needs besides is
// closed with open.
func OpenFormat(ctx context.Context, h *Host, open *Closers, spec env.Spec, o FormatOptions) (agent.Format, error) {
	fitted := agent.FormatOptions{HistoryLength: o.HistoryLength}
	if o.MemoryFile != "" {
		fitted.MemoryFile = h.Path(o.MemoryFile)
	}
	if o.Summary != nil {
		var err error
		if fitted.Summarizer, err = openSummarizer(ctx, h, open, *o.Summary); err != nil {
			return nil, err
		}
	}
	f, err := agent.FormatFor(o.Name, spec, fitted)
	return f, errext.With(errext.Input, "", err)
}

// openSummarizer talks to the endpoint that writes summaries, until open is
// closed. It asks once, so that one which cannot be used is found out before
// anything is played.
func openSummarizer(ctx context.Context, h *Host, open *Closers, o configs.Summary) (agent.Summarizer, error) {
	key := h.Getenv(o.KeyEnv)
	WarnOfOpenKey(h, o.BaseURL, key)
	client, err := openai.New(openai.Options{
		BaseURL: o.BaseURL, Model: o.Model, Key: key, Concurrency: o.Concurrency, Timeout: Seconds(o.TimeoutS), Log: h.Log,
	})
	if err != nil {
		return nil, errext.With(errext.Input, "", fmt.Errorf("the endpoint of summaries (agent.summary): %w", err))
	}
	open.AddFunc(client.Close)
	if err := client.Check(ctx, openai.Request{Temperature: o.Temperature}); err != nil {
		return nil, fmt.Errorf("the endpoint of summaries (agent.summary): %w", err)
	}
	return &openai.Summarizer{Client: client, MaxTokens: o.MaxTokens, Temperature: o.Temperature}, nil
}

// WarnOfOpenKey warns of a key that others on the network can read.
func WarnOfOpenKey(h *Host, address, key string) {
	if u, err := url.Parse(address); err == nil && key != "" && u.Scheme == "http" && !local(u.Hostname()) {
		h.Log.Warn("the key goes over the network unencrypted: use an https:// address", "host", u.Host)
	}
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadInstruction is the text, or what the file holds; "" if neither is given.
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

// MaxInstruction is more text than any model is told.
const MaxInstruction = 1 << 20
