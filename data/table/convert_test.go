package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/data/dump"
)

// mixedDump has one episode of every kind that conversion treats differently.
func mixedDump(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d.jsonl")
	reply := []data.Message{{Role: "user", Content: "u"}, {Role: "assistant", Content: "a"}}
	episode := func(env string, index int, outcome data.Outcome, reward float64, tokens int) *data.Episode {
		return &data.Episode{Task: data.Task{ID: fmt.Sprintf("%s_%d", env, index), Env: env, Index: index}, Outcome: outcome, Reward: reward,
			Tokens: make([]int32, tokens), Mask: make([]uint8, tokens), LogProbs: make([]float32, tokens), Messages: reply}
	}
	silent := episode("maze", 6, data.ContextLimit, 0, 5)
	silent.Messages = reply[:1]
	if err := dump.WriteFile(path, dump.Header{Weights: "w"}, []*data.Episode{
		episode("maze", 1, data.Success, 1, 10), episode("maze", 2, data.Done, 0.5, 20), episode("maze", 3, data.EnvError, 1, 10),
		episode("wordle", 4, data.Success, 1, 10), episode("maze", 5, data.TurnLimit, -1, 10), silent,
	}); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConvertSelects(t *testing.T) {
	half := 0.5
	for name, tc := range map[string]struct {
		o    ConvertOptions
		want string // ids of the written rows
		drop map[string]int
	}{
		"all":        {ConvertOptions{}, "maze_1 maze_2 wordle_4 maze_5", map[string]int{DropFailed: 1, DropNoReply: 1}},
		"env":        {ConvertOptions{Env: "maze"}, "maze_1 maze_2 maze_5", map[string]int{DropFailed: 1, DropNoReply: 1, DropEnv: 1}},
		"reward":     {ConvertOptions{MinReward: &half}, "maze_1 maze_2 wordle_4", map[string]int{DropFailed: 1, DropReward: 2}},
		"success":    {ConvertOptions{Success: true}, "maze_1 wordle_4", map[string]int{DropFailed: 1, DropOutcome: 3}},
		"exclude":    {ConvertOptions{Exclude: data.TaskSet{"maze": {1: 1, 5: 2}}}, "maze_2 wordle_4", map[string]int{DropFailed: 1, DropNoReply: 1, DropExcluded: 2}},
		"length":     {ConvertOptions{MaxTokens: 15, DropOverlong: true}, "maze_1 wordle_4 maze_5", map[string]int{DropFailed: 1, DropNoReply: 1, DropLength: 1}},
		"exact":      {ConvertOptions{MaxTokens: 20}, "maze_1 maze_2 wordle_4 maze_5", map[string]int{DropFailed: 1, DropNoReply: 1}},
		"own tokens": {ConvertOptions{MaxTokens: 1, Tokens: func(m []data.Message) (int, error) { return len(m) - 1, nil }}, "maze_1 maze_2 wordle_4 maze_5", map[string]int{DropFailed: 1, DropNoReply: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			c, err := Convert(context.Background(), []string{mixedDump(t)}, NewRecordWriter(&b, Layout{Format: LinesFile}), tc.o)
			if err != nil {
				t.Fatal(err)
			}
			tasks, err := LoadTasks(context.Background(), write(t, "x.jsonl", b.String()), LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, task := range tasks {
				ids = append(ids, task.ID)
				if len(task.Conversation) != 2 || task.Conversation[1].Content != "a" {
					t.Errorf("%s: %+v", task.ID, task.Conversation)
				}
				if !c.Tasks.Has(task.Env, task.Index) {
					t.Errorf("%s was not counted", task.ID)
				}
			}
			if got := strings.Join(ids, " "); got != tc.want || c.Written != len(ids) || c.Read != 6 {
				t.Errorf("got %s, counts %+v, want %s", got, c, tc.want)
			}
			if d := cmp.Diff(tc.drop, c.Dropped); d != "" {
				t.Errorf("dropped (-want +got):\n%s", d)
			}
		})
	}
}

// TestConvertContexts checks that every reply of an episode with a new prompt every turn becomes a row with its prompt,
// and that the length limit applies to the longest row.
func TestConvertContexts(t *testing.T) {
	prompt := func(text string) []data.Message { return []data.Message{{Role: "user", Content: text}} }
	e := &data.Episode{
		Task: data.Task{ID: "maze_3", Env: "maze", Index: 3}, Outcome: data.Success, Reward: 1, Contexts: []int{0, 4},
		Tokens: make([]int32, 9), Mask: make([]uint8, 9), LogProbs: make([]float32, 9),
		Turns:    []data.Turn{{Start: 2, End: 4, Text: "a", Prompt: prompt("first")}, {Start: 7, End: 9, Text: "b", Prompt: prompt("first, then a")}},
		Messages: []data.Message{{Role: "user", Content: "o"}, {Role: "assistant", Content: "a"}, {Role: "user", Content: "p"}, {Role: "assistant", Content: "b"}},
	}
	path := filepath.Join(t.TempDir(), "d.jsonl")
	if err := dump.WriteFile(path, dump.Header{}, []*data.Episode{e}); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	c, err := Convert(t.Context(), []string{path}, NewRecordWriter(&b, Layout{Format: LinesFile}), ConvertOptions{MaxTokens: 5})
	if err != nil || c.Read != 1 || c.Written != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	tasks, err := LoadTasks(t.Context(), write(t, "x.jsonl", b.String()), LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range tasks {
		got = append(got, task.ID)
		for _, m := range task.Conversation {
			got = append(got, m.Role+" "+m.Content)
		}
	}
	want := []string{"maze_3", "user first", "assistant a", "maze_3", "user first, then a", "assistant b"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := Convert(t.Context(), []string{path}, NewRecordWriter(io.Discard, Layout{Format: LinesFile}), ConvertOptions{MaxTokens: 4}); !errors.Is(err, ErrOverlong) {
		t.Errorf("a context of five tokens: %v", err)
	}
}

func TestConvertErrors(t *testing.T) {
	row := write(t, "x.jsonl", `{"item_id":"a_1"}`+"\n"+`{"item_id":"a_2","conversations":[{"from":"human","value":"x"}]}`)
	zero := 0.0
	for name, tc := range map[string]struct {
		files []string
		o     ConvertOptions
		is    error
		want  string
	}{
		"overlong":       {[]string{mixedDump(t)}, ConvertOptions{MaxTokens: 15}, ErrOverlong, "row 1, line 3: it is too long: maze_2 has 20 tokens, more than 15"},
		"no reward":      {[]string{row}, ConvertOptions{MinReward: &zero}, ErrNoReward, "row 0, line 1"},
		"no outcome":     {[]string{row}, ConvertOptions{Success: true}, ErrNoReward, "row 0, line 1"},
		"no tokenizer":   {[]string{row}, ConvertOptions{MaxTokens: 1}, nil, "without a tokenizer"},
		"absent":         {[]string{row, "absent"}, ConvertOptions{}, os.ErrNotExist, "absent"},
		"bad tokens":     {[]string{row}, ConvertOptions{MaxTokens: 1, Tokens: func([]data.Message) (int, error) { return 0, io.ErrNoProgress }}, io.ErrNoProgress, "row 1, line 2"},
		"damaged second": {[]string{row, write(t, "y.jsonl", `{"item_id":"a_1"`)}, ConvertOptions{}, io.ErrUnexpectedEOF, "y.jsonl: row 0, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Convert(context.Background(), tc.files, NewRecordWriter(io.Discard, Layout{Format: LinesFile}), tc.o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestConvertFormats checks that files of several formats convert together and rows of a parquet file stay
// unchanged.
func TestConvertFormats(t *testing.T) {
	rows := awkwardRecords()[:1]
	parquetFile := writeRecords(t, "a.parquet", Layout{Format: ParquetFile}, rows)
	chat := write(t, "b.json", `[{"id":"todo_7","conversations":[{"role":"user","content":"Do."},{"role":"assistant","content":"Done."}]}]`)
	torn := mixedDump(t)
	text, err := os.ReadFile(torn)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(torn, text[:len(text)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	c, err := Convert(context.Background(), []string{parquetFile, chat, torn}, NewRecordWriter(&b, Layout{Format: ParquetFile}), ConvertOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Read != 7 || c.Written != 6 || len(c.Torn) != 1 || c.Torn[0] != torn {
		t.Errorf("%+v", c)
	}
	out := write(t, "out.parquet", b.String())
	_, got := readRecords(t, out)
	if d := cmp.Diff(rows[0], got[0]); d != "" {
		t.Errorf("the parquet row changed (-want +got):\n%s", d)
	}
	s := func(v string) *string { return &v }
	yes, index := (*bool)(nil), int64(7)
	said := `[{"from": "human", "loss": null, "value": "Do."}, {"from": "gpt", "loss": null, "value": "Done."}]`
	want := Record{
		DataSource: s("todo"), ItemID: s("todo_7"), Ability: s("agent-reasoning"),
		Conversations: []RecordMessage{{From: s("human"), Value: s("Do.")}, {From: s("gpt"), Value: s("Done."), Loss: yes}},
		Prompt:        []RecordMessage{{Role: s("user"), Content: s("Do.")}},
		RewardModel:   &RecordReward{GroundTruth: &said, Style: s("rule")},
		ExtraInfo:     &RecordExtra{Conversations: &said, Index: &index, Split: s("todo")},
	}
	if d := cmp.Diff(want, got[1]); d != "" {
		t.Errorf("the chat row (-want +got):\n%s", d)
	}
}

// TestConvertMemory converts a file and checks that live memory does not grow with the rows read.
func TestConvertMemory(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.jsonl")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("words of an observation ", 4000)
	const rows = 120 // each of 0.1 MB
	for i := range rows {
		fmt.Fprintf(f, `{"item_id":"maze_%d","conversations":[{"from":"human","value":%q},{"from":"gpt","value":"x"}]}`+"\n", i, text)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	live := func() uint64 {
		runtime.GC() // collect twice: pooled objects survive the first collection
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	early, most, n := uint64(0), uint64(0), 0
	o := ConvertOptions{MaxTokens: 1, Tokens: func([]data.Message) (int, error) {
		switch n++; {
		case n == rows/3: // buffers no longer grow
			early = live()
		case n%20 == 0 && n > rows/3:
			most = max(most, live())
		}
		return 0, nil
	}}
	w := NewRecordWriter(io.Discard, Layout{Format: ParquetFile})
	w.(*parquetWriter).group = 1 << 18
	if _, err := Convert(context.Background(), []string{big}, w, o); err != nil {
		t.Fatal(err)
	}
	// A reader that kept the rows would hold 8 MB more; buffers and pools vary by 2 MB.
	if most -= min(most, early); n != rows || most > 4<<20 {
		t.Errorf("%d rows: after the first third of a file of %d MB, live memory grew by %.1f MB", n, rows*len(text)>>20, float64(most)/(1<<20))
	}
}
