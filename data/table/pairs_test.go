package table

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
)

func TestLoadPairs(t *testing.T) {
	no := false
	ask := func(q, a string) []data.Message {
		return []data.Message{{Role: "user", Content: q}, {Role: "assistant", Content: a}}
	}
	chat := []data.Message{
		{Role: "system", Content: "s", Loss: &no}, {Role: "user", Content: "u", Loss: &no}, {Role: "assistant", Content: "earlier", Loss: &no},
		{Role: "user", Content: "again", Loss: &no}, {Role: "assistant", Content: "a"},
	}
	flat := filepath.Join(t.TempDir(), "flat.parquet")
	writePairs(t, flat, []struct {
		Question string `parquet:"question"`
		Answer   string `parquet:"answer"`
		Other    int64  `parquet:"other"`
	}{{"q1", "a1", 1}, {"q2", "a2", 2}})
	type info struct {
		Question string `parquet:"question"`
		Answer   string `parquet:"answer"`
	}
	nested := filepath.Join(t.TempDir(), "nested.parquet")
	writePairs(t, nested, []struct {
		Prompt string `parquet:"prompt"` // a list of messages in other files
		Extra  info   `parquet:"extra_info"`
	}{{"x", info{"q1", "a1"}}})
	for _, c := range []struct {
		name, path, text string
		o                PairOptions
		want             [][]data.Message
	}{
		{"lines", "p.jsonl", `{"question":"q1","answer":"a1","conversations":3}` + "\n" + `{"answer":"a2","question":"q2"}`, PairOptions{Prompt: "question", Response: "answer"}, [][]data.Message{ask("q1", "a1"), ask("q2", "a2")}},
		{"array", "p.json", `[{"prompt":"q1","response":"a1"}]`, PairOptions{Prompt: "prompt", Response: "response"}, [][]data.Message{ask("q1", "a1")}},
		{"nested", "p.jsonl", `{"extra_info":{"question":"q1","answer":"a1"}}`, PairOptions{Prompt: "extra_info.question", Response: "extra_info.answer"}, [][]data.Message{ask("q1", "a1")}},
		{"chat", "p.jsonl", `{"prompt":[{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"earlier"},{"from":"human","value":"again"}],"response":"a"}`, PairOptions{Prompt: "prompt", Response: "response"}, [][]data.Message{chat}},
		{"limit", "p.jsonl", `{"q":"q1","a":"a1"}` + "\n" + `not JSON`, PairOptions{Prompt: "q", Response: "a", Limit: 1}, [][]data.Message{ask("q1", "a1")}},
		{"parquet", flat, "", PairOptions{Prompt: "question", Response: "answer"}, [][]data.Message{ask("q1", "a1"), ask("q2", "a2")}},
		{"parquet, nested", nested, "", PairOptions{Prompt: "extra_info.question", Response: "extra_info.answer"}, [][]data.Message{ask("q1", "a1")}},
		{"parquet, text where a list could be", nested, "", PairOptions{Prompt: "prompt", Response: "extra_info.answer"}, [][]data.Message{ask("x", "a1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path
			if c.text != "" {
				path = filepath.Join(t.TempDir(), c.path)
				if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c.o.Env = "maze"
			tasks, err := LoadPairs(context.Background(), path, c.o)
			if err != nil {
				t.Fatal(err)
			}
			var got [][]data.Message
			for _, task := range tasks {
				got = append(got, task.Conversation)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if tasks[0].Env != "maze" || tasks[0].ID != filepath.Base(path)+":0" {
				t.Errorf("task %+v", tasks[0])
			}
		})
	}
}

func TestLoadPairsErrors(t *testing.T) {
	o := PairOptions{Prompt: "q", Response: "a"}
	parquetFile := filepath.Join(t.TempDir(), "p.parquet")
	writePairs(t, parquetFile, []struct {
		Q string  `parquet:"q"`
		B string  `parquet:"b"`
		N int64   `parquet:"n"`
		A *string `parquet:"none,optional"`
	}{{"1", "2", 3, nil}})
	for _, c := range []struct {
		name, text, want string
		o                PairOptions
	}{
		{"missing column", `{"q":"1"}`, "row 0, line 1: it has no value in column a", o},
		{"null", `{"q":"1","a":"2"}` + "\n" + `{"q":"1","a":null}`, "row 1, line 2: it has no value in column a", o},
		{"a number", `{"q":"1","a":2}`, "a is 2", o},
		{"an unknown role", `{"q":[{"role":"wizard","content":"x"}],"a":"2"}`, "unknown role", o},
		{"no messages", `{"q":[],"a":"2"}`, "q is []", o},
		{"empty", "", "no rows", o},
		{"one column", `{}`, "two columns", PairOptions{Prompt: "q", Response: "q"}},
		{"parquet column", parquetFile, "column a; its columns are b, n, none, q", o},
		{"parquet number", parquetFile, "n is 3", PairOptions{Prompt: "q", Response: "n"}},
		{"parquet null", parquetFile, "row 0: it has no value in column none", PairOptions{Prompt: "q", Response: "none"}},
	} {
		path := c.text
		if path != parquetFile {
			path = filepath.Join(t.TempDir(), "p.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := LoadPairs(context.Background(), path, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func writePairs[T any](t *testing.T, path string, rows []T) {
	t.Helper()
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
}
