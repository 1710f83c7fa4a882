package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/data"
	"github.com/openmanus/openmanus/env"
)

func TestCallFormats(t *testing.T) {
	const object = `{"thought":"t","function_name":"click","arguments":{"item":"Buy Now"}}`
	for _, tt := range []struct {
		f            Format
		text, action string
		ok           bool
	}{
		{functionCalling, object, object, true},
		{functionCalling, "So:\n```json\n" + object + "\n```", object, true},
		{functionCalling, `{"function_name":"click","arguments":{}}`, "", false},
		{functionCalling, "Action: click[Buy Now]", "", false},
		{functionCalling, "", "", false},
		{codeAsAction, "```python\n# why\nclick('Buy Now')\n```", "# why\nclick('Buy Now')", true},
		{codeAsAction, "click('Buy Now')", "click('Buy Now')", true},
		{codeAsAction, "x = click('Buy Now')", "", false},
		{codeAsAction, "", "", false},
	} {
		want := Parsed{Action: tt.action, Text: tt.text, OK: tt.ok} // the client receives the full text
		if diff := cmp.Diff(want, tt.f.Parse(tt.text)); diff != "" {
			t.Errorf("%s of %q (-want +got):\n%s", tt.f.Name(), tt.text, diff)
		}
	}
}

func TestRecordedTextIsNotACall(t *testing.T) {
	no, yes := false, true
	task := data.Task{ID: "webshop_1", Env: "webshop", Conversation: []data.Message{
		{Role: "user", Content: "i"}, {Role: "assistant", Content: "Ok.", Loss: &no},
		{Role: "user", Content: "o"}, {Role: "assistant", Content: "Action: click[x]", Loss: &yes},
	}}
	shop, err := env.Lookup("webshop")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recorded(t.Context(), task, shop, react, Options{}, false); err != nil {
		t.Error(err)
	}
	if _, err := Recorded(t.Context(), task, shop, codeAsAction, Options{}, false); err == nil || !strings.Contains(err.Error(), "webshop_1") {
		t.Errorf("error %v for recorded text actions under a format of function calls, want one that names the task", err)
	}
}
