package cli

import "github.com/urfave/cli/v2"

// logprobsOptions are the command line of `openmanus model logprobs`.
type logprobsOptions struct {
	Model  string
	Device string
	Dtype  string
	Decode bool // one token at a time through the KV cache
}

func logprobsFlags() []cli.Flag {
	return []cli.Flag{
		modelFlag(), deviceFlag(), dtypeFlag(),
		&cli.BoolFlag{Name: "decode", Usage: "compute one token at a time through the KV cache"},
	}
}

// parseLogprobs reads the flags of logprobsFlags.
func parseLogprobs(c *cli.Context) (logprobsOptions, error) {
	o := logprobsOptions{Model: c.String("model"), Device: c.String("device"), Dtype: c.String("dtype"), Decode: c.Bool("decode")}
	f := flagFaults{}
	f.need("model", o.Model, "a Hugging Face folder or a .gguf file")
	f.device(o.Device)
	f.oneOf("dtype", o.Dtype, "float32", "bfloat16")
	return o, f.err()
}

// infoOptions are the command line of `openmanus model info PATH`.
type infoOptions struct {
	Model string
	JSON  bool
}

func infoFlags() []cli.Flag { return []cli.Flag{modelFlag(), jsonFlag()} }

// parseInfo reads the flags of infoFlags and the argument.
func parseInfo(c *cli.Context) (infoOptions, error) {
	o := infoOptions{Model: c.String("model"), JSON: c.Bool("json")}
	if o.Model == "" {
		o.Model = c.Args().First()
	} else if c.NArg() > 0 {
		return o, usagef("both --model %s and %s are given: take out one of the two", o.Model, c.Args().First())
	}
	if o.Model == "" {
		return o, usagef("model info needs a PATH: a Hugging Face folder or a .gguf file")
	}
	return o, nil
}

// convertOptions are the command line of `openmanus model convert SRC DST`.
type convertOptions struct {
	From, To string // To is a folder that does not exist yet
	Dtype    string
}

func convertFlags() []cli.Flag { return []cli.Flag{dtypeFlag()} }

// parseConvert reads the flags of convertFlags and the two arguments.
func parseConvert(c *cli.Context) (convertOptions, error) {
	if c.NArg() != 2 {
		return convertOptions{}, usagef("model convert needs two paths: SRC (a Hugging Face folder or a .gguf file) and DST (a new folder)")
	}
	o := convertOptions{From: c.Args().Get(0), To: c.Args().Get(1), Dtype: c.String("dtype")}
	f := flagFaults{}
	f.oneOf("dtype", o.Dtype, "float32", "bfloat16")
	return o, f.err()
}
