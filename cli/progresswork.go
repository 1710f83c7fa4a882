package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
)

// workChanges says in what the work differs that a progress file was begun
// with: "key: was, now" of every part that does. Parts of a [reward] section
// have the names that they have there.
func workChanges(was, now []byte) string {
	before, after := workParts(was), workParts(now)
	var out []string
	add := func(key, old, new string) {
		out = append(out, fmt.Sprintf("%s: was %s, now %s", key, cmp.Or(old, "nothing"), cmp.Or(new, "nothing")))
	}
	if before["command"] != after["command"] { // whose parts are others
		add("command", before["command"], after["command"])
		return out[0]
	}
	both := maps.Clone(before)
	maps.Copy(both, after)
	for _, key := range slices.Sorted(maps.Keys(both)) {
		if before[key] != after[key] {
			add(key, before[key], after[key])
		}
	}
	for _, c := range configs.Diff(rewardPart(was), rewardPart(now)) {
		add(c.Key, c.Old, c.New)
	}
	if len(out) == 0 {
		return "another version of openmanus may have begun it"
	}
	return strings.Join(out, "; ")
}

// workParts are the parts of a piece of work, those in parts as a.b, without
// the [reward] section; none where the line is not what openmanus writes.
func workParts(line []byte) map[string]string {
	var work map[string]any
	_ = json.Unmarshal(line, &work) // whatever else it is differs in its command
	delete(work, "reward")
	out := map[string]string{}
	var add func(key string, v any)
	add = func(key string, v any) {
		if parts, ok := v.(map[string]any); ok {
			for name, part := range parts {
				add(key+"."+name, part)
			}
			return
		}
		text, err := json.Marshal(v)
		if err != nil { // it was JSON
			return
		}
		out[key] = sha256Text.ReplaceAllString(string(text), "$1")
	}
	for name, v := range work {
		add(name, v)
	}
	return out
}

// sha256Text is a hash, of which the beginning is enough to tell two apart.
var sha256Text = regexp.MustCompile(`^"([0-9a-f]{12})[0-9a-f]{52}"$`)

func rewardPart(line []byte) (c configs.Config) {
	_ = json.Unmarshal(line, &struct{ Reward *configs.Reward }{&c.Reward})
	return c
}
