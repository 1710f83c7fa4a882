package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/configs"
	"github.com/openmanus/openmanus/env/proxy"
	"github.com/openmanus/openmanus/internal/errext"
)

func proxyCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name:  "proxy",
		Usage: "forward to a server and inject faults until interrupted",
		Flags: slices.Concat([]cli.Flag{
			&cli.StringFlag{Name: "upstream", Usage: "`URL` of the server behind the proxy"},
		}, listenFlags(36101), []cli.Flag{
			&cli.StringFlag{Name: "log", Usage: "append every injected fault to `FILE`, as a line of JSON"},
		}),
	}, 0, 0, envProxy)
}

// envProxy runs a proxy in front of a server until it is interrupted. Then it
// prints its counts and succeeds.
func envProxy(ctx context.Context, s *State, c *cli.Context) error {
	o := proxy.Options{Upstream: c.String("upstream"), Log: s.Log, Now: s.Now}
	f := flagFaults{}
	if f.need("upstream", o.Upstream, "the address of a running server, such as http://127.0.0.1:36001") {
		if msg := configs.ServerURL(o.Upstream); msg != "" {
			f.add("upstream", "%s", msg)
		}
	}
	var addr string
	addr, o.Plan = f.listen(c)
	if err := f.err(); err != nil {
		return err
	}
	if path := c.String("log"); path != "" {
		file, err := s.Append(path)
		if err != nil {
			return errext.With(errext.Disk, "", fmt.Errorf("--log: %w", err))
		}
		defer file.Close()
		o.Journal = file
	}
	server, err := proxy.Serve(s.interrupts.Hard, addr, o)
	if err != nil {
		return errext.With(errext.Env, "choose another --port; 0 selects a free port", err)
	}
	if err := s.serve(server, "proxy for "+o.Upstream+" at "+server.URL); err != nil {
		return err
	}
	return s.print([]byte(countsText(server.Counts())))
}

// countsText formats the counts of a proxy.
func countsText(c proxy.Counts) string {
	var parts []string
	for _, kind := range sortedKeys(c.Faults) {
		parts = append(parts, kind+" "+strconv.Itoa(c.Faults[kind]))
	}
	if len(parts) == 0 {
		parts = []string{"none"}
	}
	text := fmt.Sprintf("%d requests; injected: %s\n", c.Requests, strings.Join(parts, ", "))
	if c.UpstreamErrors > 0 {
		text += fmt.Sprintf("the server behind the proxy failed to respond %d times\n", c.UpstreamErrors)
	}
	return text
}
