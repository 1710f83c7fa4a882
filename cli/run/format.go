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

// OpenFormat returns the prompt format of an [[env]] table. Closing open closes
// the connection to the endpoint of summaries, if the format has one.
func OpenFormat(ctx context.Context, h *Host, open *Closers, spec env.Spec, cfg configs.Config, e configs.Env) (agent.Format, error) {
	o := agent.FormatOptions{HistoryLength: e.HistoryLength}
	if e.MemoryFile != "" {
		o.MemoryFile = h.Path(e.MemoryFile)
	}
	if e.UseSummary {
		var err error
		if o.Summarizer, err = openSummarizer(ctx, h, open, cfg.Agent.Summary); err != nil {
			return nil, err
		}
	}
	f, err := agent.FormatFor(e.Format, spec, o)
	return f, errext.With(errext.Input, "", err)
}

// openSummarizer connects to the endpoint that writes summaries. A request
// checks that it works before anything is played.
func openSummarizer(ctx context.Context, h *Host, open *Closers, o configs.Summary) (agent.Summarizer, error) {
	key := h.Getenv(o.KeyEnv)
	WarnPlainKey(h, o.BaseURL, key)
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

// WarnPlainKey warns if a key crosses the network unencrypted.
func WarnPlainKey(h *Host, address, key string) {
	if u, err := url.Parse(address); err == nil && key != "" && u.Scheme == "http" && !local(u.Hostname()) {
		h.Log.Warn("the key crosses the network unencrypted: use an https:// address", "host", u.Host)
	}
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ReadInstruction returns text, or the contents of file unless it is "".
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
