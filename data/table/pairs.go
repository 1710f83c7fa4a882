package table

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
)

// PairOptions name the two columns of a file of prompts and responses, which
// is what most supervised data is (verl's data.prompt_key and response_key).
type PairOptions struct {
	Env              string // of the tasks
	Prompt, Response string // columns; of a struct's field "struct.field"
	Limit            int    // keep only the first rows; 0 means all
}

// pair is a row: a prompt, which is a text or, in JSON, a chat, and a response.
type pair struct {
	prompt   []data.Message
	response string
}

// LoadPairs reads prompts and responses from a parquet file, JSON lines or a
// JSON array. Each becomes a task whose conversation is the prompt, as the
// user's message where it is a text, and the response as the assistant's.
func LoadPairs(ctx context.Context, path string, o PairOptions) ([]data.Task, error) {
	if o.Prompt == "" || o.Response == "" || o.Prompt == o.Response {
		return nil, fmt.Errorf("load pairs: the columns %q and %q are not two", o.Prompt, o.Response)
	}
	var tasks []data.Task
	var size int64
	err := readPairs(ctx, path, o, func(n int, p pair) error {
		if n >= maxRows {
			return fmt.Errorf("more than %d rows: split the file", maxRows)
		}
		t := data.Task{
			ID: fmt.Sprintf("%s:%d", filepath.Base(path), n), Env: o.Env, Index: data.NoIndex,
			Conversation: append(p.prompt, data.Message{Role: "assistant", Content: p.response}),
		}
		if size += taskSize(&t); size > maxTaskBytes {
			return fmt.Errorf("the rows take more than %d bytes: split the file", int64(maxTaskBytes))
		}
		tasks = append(tasks, t)
		if len(tasks) == o.Limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("load pairs: %s: %w", path, err)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("load pairs: %s: it has no rows", path)
	}
	return tasks, nil
}

func readPairs(ctx context.Context, path string, o PairOptions, row func(n int, p pair) error) error {
	f, size, err := openData(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > maxFileBytes {
		return fmt.Errorf("%d bytes are more than the limit of %d: split the file", size, int64(maxFileBytes))
	}
	magic := make([]byte, len(parquetMagic))
	if _, err = f.ReadAt(magic, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(magic) == parquetMagic {
		_, err := readParquet(ctx, f, size, func(n int, r *Record) error {
			p := pair{response: r.Texts[o.Response]}
			prompt, asked := r.Texts[o.Prompt]
			_, answered := r.Texts[o.Response]
			if !asked || !answered {
				return fmt.Errorf("row %d has no text in column %s or %s", n, o.Prompt, o.Response)
			}
			p.prompt = []data.Message{{Role: "user", Content: prompt}}
			return row(n, p)
		}, o.Prompt, o.Response)
		return err
	}
	text, err := dump.NewText(f)
	if err != nil {
		return err
	}
	defer text.Close()
	objects, err := newObjects(bufio.NewReaderSize(text, 1<<16))
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, line, err := objects.next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		var p pair
		if err == nil {
			p, err = o.parse(raw)
		}
		if err == nil {
			err = row(n, p)
		}
		if errors.Is(err, errEnough) {
			return err
		}
		if err != nil {
			return fmt.Errorf("row %d, line %d: %w", n, line, err)
		}
	}
}

// parse takes a pair out of a JSON object.
func (o PairOptions) parse(raw []byte) (p pair, err error) {
	prompt, err := member(raw, o.Prompt)
	if err != nil {
		return p, err
	}
	response, err := member(raw, o.Response)
	if err != nil {
		return p, err
	}
	text := textIn(response)
	if text == nil {
		return p, fmt.Errorf("%s is %.20s, not a text", o.Response, response)
	}
	p.response = *text
	if text := textIn(prompt); text != nil {
		p.prompt = []data.Message{{Role: "user", Content: *text}}
		return p, nil
	}
	var chat []jsonMessage
	if err := json.Unmarshal(prompt, &chat); err != nil || len(chat) == 0 {
		return p, fmt.Errorf("%s is %.20s, neither a text nor messages", o.Prompt, prompt)
	}
	if p.prompt, err = convert(recordMessages(chat)); err != nil {
		return p, fmt.Errorf("%s: %w", o.Prompt, err)
	}
	no := false
	for i := range p.prompt { // what is asked is not learned
		p.prompt[i].Loss = &no
	}
	return p, nil
}

// member finds "column", or "struct.field", in a JSON object.
func member(raw []byte, path string) (json.RawMessage, error) {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(raw, &columns); err != nil {
		return nil, err
	}
	if v, ok := columns[path]; ok && string(v) != "null" {
		return v, nil
	}
	for name, v := range columns {
		if rest, ok := cutField(path, name); ok {
			return member(v, rest)
		}
	}
	return nil, fmt.Errorf("it has no column %s", path)
}

// cutField takes "struct." off "struct.field".
func cutField(path, name string) (rest string, ok bool) {
	if len(path) > len(name)+1 && path[:len(name)] == name && path[len(name)] == '.' {
		return path[len(name)+1:], true
	}
	return "", false
}

// textColumn is the leaf of a column whose text is kept under its name.
func textColumn(name string) leaf {
	return leaf{kind: parquet.ByteArray, scalar: func(r *Record, v parquet.Value) {
		if r.Texts == nil {
			r.Texts = map[string]string{}
		}
		r.Texts[name] = string(v.ByteArray())
	}}
}
