package cli

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/openmanus/openmanus/agent/llm/hub"
	"github.com/openmanus/openmanus/cli/run"
	"github.com/openmanus/openmanus/internal/errext"
)

func modelFetchCommand(s *State) *cli.Command {
	return leaf(s, &cli.Command{
		Name: "fetch", Usage: "fetch a model from the Hugging Face hub", ArgsUsage: "ORG/NAME[@REVISION]",
		Description: "Downloads the weights as safetensors, the configuration and the tokenizer into the cache that Python programs\n" +
			"share, and prints the folder. Afterwards the name stands for the model wherever a model is given. ORG/NAME/FILE.gguf\n" +
			"fetches one GGUF file. The same command continues after an interruption.\n\n" +
			"Environment: HF_HOME or HF_HUB_CACHE (the cache), HF_TOKEN (private and gated models), HF_ENDPOINT (a mirror),\n" +
			"HTTPS_PROXY, HF_HUB_OFFLINE.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "revision", Usage: "branch, tag or commit; default: " + hub.DefaultRevision},
			&cli.StringFlag{Name: "to", Usage: "write a plain folder `DIR`, to copy to a machine without network, instead of the cache"},
			&cli.StringSliceFlag{Name: "include", Usage: "`PATTERN` of the files of weights instead of the safetensors, such as '*Q8_0.gguf' (repeatable)"},
			jsonFlag(),
		},
	}, 1, 1, modelFetch)
}

// fetchedModel is the output of `model fetch --json`.
type fetchedModel struct {
	Model      string `json:"model"`
	Path       string `json:"path"`
	Commit     string `json:"commit,omitempty"` // empty: the copy in the cache was used without a request
	Files      int    `json:"files"`
	Bytes      int64  `json:"bytes"`
	Downloaded int64  `json:"downloaded"` // bytes of the files that were not in the cache
}

func modelFetch(ctx context.Context, s *State, c *cli.Context) error {
	text, revision := c.Args().First(), c.String("revision")
	n, ok := hub.ParseName(text)
	if !ok {
		return errext.With(errext.Usage, "give ORG/NAME, such as Qwen/Qwen2.5-0.5B-Instruct", fmt.Errorf("%q is not the name of a model on the hub", text))
	}
	var f flagFaults
	if revision != "" {
		if strings.Contains(text, "@") {
			f.add("revision", "%s names a revision as well: remove one of them", text)
		} else if n, ok = hub.ParseName(text + "@" + revision); !ok {
			f.add("revision", "%q is not the name of a branch, a tag or a commit", revision)
		}
	}
	include := c.StringSlice("include")
	for _, p := range include {
		if _, err := path.Match(p, ""); err != nil {
			f.add("include", "%q is not a pattern: %v", p, err)
		}
	}
	if err := f.err(); err != nil {
		return err
	}
	got, err := run.FetchModel(ctx, &s.Host, n, hub.Options{Include: include, To: c.String("to")})
	if err != nil {
		return err
	}
	out := fetchedModel{Model: n.String(), Path: got.Path, Commit: got.Commit, Files: got.Files, Bytes: got.Bytes, Downloaded: got.Downloaded}
	return s.printResult(out, got.Path+"\n", c.Bool("json"))
}
