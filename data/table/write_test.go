package table

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/openmanus/openmanus/data"
)

// realFiles returns the paths of OpenManus-RL's own data files that are present.
func realFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "shared", "data", "*", "*.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the real OpenManus-RL files are not here")
	}
	return files
}

func readRecords(t testing.TB, path string) (Source, []Record) {
	t.Helper()
	var out []Record
	src, err := ReadSource(context.Background(), path, func(e *Entry) error {
		out = append(out, *e.Record)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return src, out
}

func writeRecords(t testing.TB, name string, l Layout, records []Record) string {
	t.Helper()
	var b bytes.Buffer
	w := NewRecordWriter(&b, l)
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parquetShape returns the footer's description of the columns: names, types, nullability, annotations and nesting.
func parquetShape(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	pf, err := parquet.OpenFile(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return pf.Schema().String()
}

// TestRealFilesRoundTrip reads each of OpenManus-RL's files, writes it, reads
// it again, and checks that the rows and the schema are equal.
func TestRealFilesRoundTrip(t *testing.T) {
	for _, file := range realFiles(t) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			src, want := readRecords(t, file)
			if len(want) == 0 || len(src.Others) > 0 {
				t.Fatalf("%d rows, columns not read: %v", len(want), src.Others)
			}
			copied := writeRecords(t, "x.parquet", Layout{Format: ParquetFile}, want)
			src, got := readRecords(t, copied)
			if src.Format != ParquetFile || len(src.Others) > 0 {
				t.Errorf("%+v", src)
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("(-want +got):\n%.2000s", cmp.Diff(want, got))
			}
			if d := cmp.Diff(parquetShape(t, file), parquetShape(t, copied)); d != "" {
				t.Errorf("schema (-original +ours):\n%s", d)
			}
			for i, r := range want {
				if text := conversationText(r.Conversations); *r.RewardModel.GroundTruth != text || *r.ExtraInfo.Conversations != text {
					t.Fatalf("row %d: ground_truth is not the text of its conversation:\n%.300s\n%.300s", i, *r.RewardModel.GroundTruth, text)
				}
			}
		})
	}
}

// awkwardRecords returns rows with every kind of null that the schema allows.
func awkwardRecords() []Record {
	s := func(v string) *string { return &v }
	yes, no, index := true, false, int64(-7)
	full := Record{
		DataSource: s("maze"), ItemID: s("lmrlgym_maze_13"), Ability: s("agent-reasoning"),
		Conversations: []RecordMessage{
			{From: s("human"), Value: s("a\x00<script>é\U0001F600\"\\")}, {From: s("gpt"), Value: s(""), Loss: &no}, {From: s("gpt"), Value: s("c"), Loss: &yes},
		},
		Prompt:      []RecordMessage{{Role: s("user"), Content: s("p")}},
		RewardModel: &RecordReward{GroundTruth: s("[]"), Style: s("rule")},
		ExtraInfo:   &RecordExtra{Conversations: s("[]"), Index: &index, Split: s("maze")},
	}
	return []Record{
		full,
		{},
		{Conversations: []RecordMessage{}, Prompt: []RecordMessage{}, RewardModel: &RecordReward{}, ExtraInfo: &RecordExtra{}},
		{ItemID: s(""), Conversations: []RecordMessage{{From: s("gpt")}, {Value: s("x")}, {}}, RewardModel: &RecordReward{Style: s("none")}},
		full,
	}
}

func TestParquetKeepsEveryNull(t *testing.T) {
	want := awkwardRecords()
	_, got := readRecords(t, writeRecords(t, "x.parquet", Layout{Format: ParquetFile}, want))
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, got := readRecords(t, writeRecords(t, "x.parquet", Layout{Format: ParquetFile}, nil)); len(got) != 0 {
		t.Errorf("a file without rows was read as %d rows", len(got))
	}
}

// TestParquetRowGroups checks that more rows than fit into one row group can be written and read.
func TestParquetRowGroups(t *testing.T) {
	var b bytes.Buffer
	w := NewRecordWriter(&b, Layout{Format: ParquetFile}).(*parquetWriter)
	w.group = 1 << 12
	big := strings.Repeat("x", w.group/4)
	id := "maze_1"
	r := Record{ItemID: &id, Ability: &big}
	for range 9 {
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pf, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(pf.RowGroups()); n != 3 || pf.NumRows() != 9 {
		t.Errorf("%d row groups, %d rows", n, pf.NumRows())
	}
	_, got := readRecords(t, write(t, "x.parquet", b.String()))
	if len(got) != 9 || *got[0].Ability != big || *got[8].Ability != big {
		t.Errorf("%d rows were read", len(got))
	}
}

func TestJSONRoundTrip(t *testing.T) {
	full := awkwardRecords()[0]
	s := func(v string) *string { return &v }
	index := int64(4)
	other := Record{DataSource: s("maze"), ItemID: s("a"), ExtraInfo: &RecordExtra{Index: &index}, Conversations: full.Conversations}
	rows := []Record{full, other}
	for _, l := range []Layout{{Format: LinesFile}, {Format: ArrayFile}, {Format: LinesFile, Chat: true}, {Format: ArrayFile, Chat: true}} {
		path := writeRecords(t, "x", l, rows)
		src, got := readRecords(t, path)
		if src.Format != l.Format || len(got) != 2 {
			t.Fatalf("%+v: read as %s, %d rows", l, src.Format, len(got))
		}
		for i := range rows {
			want, err := rows[i].Task(i, "")
			if err != nil {
				t.Fatal(err)
			}
			task, err := got[i].Task(i, "")
			if err != nil {
				t.Fatal(err)
			}
			want.Prompt, want.GroundTruth = nil, ""
			if l.Chat { // chat rows record the loss only if it is false
				want.Conversation[2].Loss = nil
			}
			if d := cmp.Diff(want, task); d != "" {
				t.Errorf("%+v: row %d (-want +got):\n%s", l, i, d)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		key := map[bool]string{false: `"item_id":"lmrlgym_maze_13","conversations":[{"from":"human","value":`, true: `"id":"lmrlgym_maze_13","conversations":[{"role":"user","content":`}
		if !bytes.Contains(text, []byte(key[l.Chat])) {
			t.Errorf("%+v: %s", l, text)
		}
		if src, got := readRecords(t, writeRecords(t, "x", l, nil)); len(got) != 0 || l.Format == ArrayFile && src.Format != ArrayFile {
			t.Errorf("%+v: a file without rows: %+v, %d rows", l, src, len(got))
		}
	}
}

func TestRecordOfAnEpisode(t *testing.T) {
	no := false
	e := &data.Episode{Task: data.Task{ID: "maze_3", Env: "maze", Index: 3}, Messages: []data.Message{
		{Role: "system", Content: "s"}, {Role: "user", Content: "u"}, {Role: "assistant", Content: "a", Loss: &no},
		{Role: "user", Content: "o"}, {Role: "assistant", Content: "Ünï\n"},
	}}
	task, err := RecordOf(e).Task(9, "")
	if err != nil {
		t.Fatal(err)
	}
	yes := true
	text := `[{"from": "system", "loss": null, "value": "s"}, {"from": "human", "loss": null, "value": "u"}, {"from": "gpt", "loss": false, "value": "a"}, ` +
		`{"from": "human", "loss": null, "value": "o"}, {"from": "gpt", "loss": true, "value": "\u00dcn\u00ef\n"}]`
	want := data.Task{ID: "maze_3", Env: "maze", Index: 3, GroundTruth: text, Prompt: []data.Message{{Role: "system", Content: "s"}, {Role: "user", Content: "u"}}}
	want.Conversation = append(want.Conversation, e.Messages...)
	want.Conversation[4].Loss = &yes
	if d := cmp.Diff(want, task); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestConversationText(t *testing.T) {
	s := "\"\\/\b\f\n\r\t\x00\x1f\x7fé\u2028\U0001F600"
	got := conversationText([]RecordMessage{{From: &s}})
	want := `[{"from": "\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f" + `\u00e9\u2028\ud83d\ude00", "loss": null, "value": null}]` // json.dumps of Python 3
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLayoutOf(t *testing.T) {
	for name, want := range map[string]string{"a.parquet": ParquetFile, "b.JSONL": LinesFile, "dir.x/c.json": ArrayFile, "d": "", "e.csv": "", "f.jsonl.zst": ""} {
		if l, err := LayoutOf(name); l.Format != want || (err == nil) != (want != "") {
			t.Errorf("LayoutOf(%s) = %+v, %v", name, l, err)
		}
	}
}
