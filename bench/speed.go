package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/internal/process"
	"github.com/openmanus/openmanus/torch"
)

// measureSpeed measures the chosen rows of the table in each type, in turns with the peers and with the rates of the machine.
func (r *report) measureSpeed(ctx context.Context, o options, log io.Writer) error {
	list := chosen(rows(), o.rows)
	if len(list) == 0 {
		return fmt.Errorf("--rows %s matches no row", o.rows)
	}
	wanted := func(r Row) bool { return slices.ContainsFunc(r.Peers, o.wants) }
	if o.peers != nil && !slices.ContainsFunc(list, wanted) {
		return fmt.Errorf("--peers %s matches no peer of the rows; --peer '' measures without peers", o.peers)
	}
	for _, dt := range types {
		if o.typed && dt != o.dtype {
			continue
		}
		if err := r.measureType(ctx, o, list, dt, log); err != nil {
			return fmt.Errorf("%v: %w", dt, err)
		}
	}
	return nil
}

func (r *report) measureType(ctx context.Context, o options, list []Row, dt torch.DType, log io.Writer) (err error) {
	ours, err := OpenOurs(ctx, o.model, "cpu", dt, []Job{{Kind: Train, Batch: 1, Master: true}})
	if err != nil {
		return fmt.Errorf("open %s: %w", o.model, err)
	}
	defer ours.Close()
	peers := &peers{o: o, dtype: dt, log: log, open: map[string]*Peer{}}
	defer func() { err = errors.Join(err, peers.Close()) }()
	work, long := ours.work(dt), longRun
	if o.quick {
		long = longQuickRun
	}
	for _, row := range list {
		j := row.Job
		if o.quick {
			j = row.Quick
		}
		fmt.Fprintf(log, "measuring %s, %v\n", j.Name, dt)
		rivals, err := peers.of(ctx, row)
		if err != nil {
			return err
		}
		if err := ours.reserve(ctx, []Job{j}); err != nil {
			return err
		}
		m := Machine{dtype: dt}
		c, err := compare(ctx, j, ours, rivals, o.rounds, long, func() error { return m.probe(ctx, ours.thread) })
		if err != nil {
			return err
		}
		c.bound(work, m)
		c.Type = dt.String()
		fmt.Fprintln(log, strings.Join(c.row(), "  ")) // the report comes after the last row
		r.Speed = append(r.Speed, c)
	}
	r.Versions = merged(r.Versions, peers)
	return nil
}

// bound compares the rate of our side with that of the machine.
func (c *Comparison) bound(w Work, m Machine) {
	n, _ := c.Job.Units()
	c.Bound = float64(n) / w.bound(m, c.Job).Seconds()
	c.Share = c.Ours / c.Bound
	c.Machine = &m
}

func (o *Ours) work(dt torch.DType) Work { return workOf(o.model.Config, o.model.Cost(), dt.Size()) }

// wants reports whether --peers, if given, matches the form.
func (o options) wants(f Form) bool { return o.peers == nil || o.peers.MatchString(f.String()) }

// peers opens the peers of one type as rows need them.
type peers struct {
	o     options
	dtype torch.DType
	log   io.Writer
	open  map[string]*Peer
	dir   string // of the model as a file of the type, for llama.cpp
}

// of returns the peers of a row, none if the options name no Python.
func (p *peers) of(ctx context.Context, row Row) (rivals []Rival, err error) {
	if p.o.python == "" || p.o.quick {
		return nil, nil
	}
	for _, f := range row.Peers {
		if !p.o.wants(f) {
			continue
		}
		if p.open[f.Peer] == nil {
			fmt.Fprintf(p.log, "loading %s\n", f.Peer)
			script, file := p.o.script, p.o.model
			if f.Peer == llamaCPP {
				script = p.o.llamaScript
				if file, err = p.gguf(ctx); err != nil {
					return nil, err
				}
			}
			if p.open[f.Peer], err = OpenPeer(ctx, []string{p.o.python, script}, file, p.o.threads, p.dtype, p.log); err != nil {
				delete(p.open, f.Peer)
				return nil, fmt.Errorf("%s: %w", f.Peer, err)
			}
		}
		rivals = append(rivals, Rival{Form: f, Side: p.open[f.Peer]})
	}
	return rivals, nil
}

// gguf writes the model as a GGUF file of the type: the file of the options is quantised, and llama.cpp would compute with it as it is.
func (p *peers) gguf(ctx context.Context) (file string, err error) {
	if p.dir, err = os.MkdirTemp("", "openmanus-bench-"); err != nil {
		return "", err
	}
	names := map[torch.DType]string{torch.Float32: "f32", torch.BFloat16: "bf16"}
	file = filepath.Join(p.dir, names[p.dtype]+".gguf")
	out, err := process.Command(ctx, p.o.program, "model", "convert", p.o.model, file, "--to", "gguf", "--type", names[p.dtype]).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("write %s as %s for llama.cpp: %w\n%s", p.o.model, names[p.dtype], err, out)
	}
	return file, nil
}

// Close ends the peers and removes their model.
func (p *peers) Close() (err error) {
	for _, peer := range p.open {
		err = errors.Join(err, peer.Close())
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}

// merged adds the versions of the open peers.
func merged(versions map[string]string, p *peers) map[string]string {
	for _, peer := range p.open {
		if versions == nil {
			versions = map[string]string{}
		}
		maps.Copy(versions, peer.Ready.Versions)
	}
	return versions
}
