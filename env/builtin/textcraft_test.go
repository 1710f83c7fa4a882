package builtin_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/action"
	"github.com/openmanus/openmanus/env/builtin"
)

const protocolBook = `
1 emerald block = 9 emerald
4 oak planks [planks] = 1 oak log
4 pine planks [planks] = 1 pine log
1 table = 4 [planks]
1 chair = 2 [planks], 1 oak planks, 1 [cushions]
`

func protocolServer(t *testing.T) string {
	t.Helper()
	b, err := builtin.ParseBook(protocolBook)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, "textcraft", builtin.Options{Recipes: b}).URL
}

// TestTextcraftWire checks the replies of the protocol, section 5.1, byte for byte.
func TestTextcraftWire(t *testing.T) {
	u := protocolServer(t)
	const first = `"observation":"Crafting commands:\ncraft 1 emerald block using 9 emerald\n\nGoal: craft emerald block.","done":false,"reward":0}`
	equal(t, get(t, u+"/"), `"This is environment TextCraft."`)
	equal(t, post(t, u+"/create", `{"minecraft_dir":"agentenv_textcraft/","commands":null,"goal":null}`), `{"id":0,`+first)
	if got := post(t, u+"/create", `{"commands":"craft x","goal":"minecraft:x"}`); !strings.Contains(got, `"id":1,`) || !strings.Contains(got, "Goal: craft oak planks.") {
		t.Errorf("the reply to the second create is %s, want id 1 and task 1", got)
	}
	equal(t, post(t, u+"/reset", `{"data_idx":0,"id":0}`), `{"id":0,`+first)
	for _, tt := range []struct{ action, want string }{
		{"inventory", "Inventory: You are not carrying anything."},
		{"get 9 emerald", "Got 9 emerald"},
		{"get 03 oak log", "Got 3 oak log"},
		{"get 1 oak planks", "Could not find oak planks"},
		{"get 1 planks", "Could not find planks"},
		{"get 1 unobtainium", "Could not find unobtainium"},
		{"get 1 minecraft:emerald", "Could not find minecraft:emerald"},
		{"get one emerald", "Could not execute get one emerald"},
		{"get 1", "Could not execute get 1"},
		{" get 1 emerald", "Could not execute  get 1 emerald"},
		{"Get 1 emerald", "Could not execute Get 1 emerald"},
		{"dance", "Could not execute dance"},
		{"", "Could not execute "},
		{"inventory please", "Inventory: [emerald] (9) [oak log] (3) "},
		{"craft 1 emerald block using bar", "Wrong item format: bar"},
		{"craft 1 emerald block using 9 emerald, bar", "Wrong item format: bar"},
		{"craft 1 emerald block with 9 emerald", "Could not execute craft 1 emerald block with 9 emerald"},
		{"craft 1 foo using 1 bar", "Could not find enough items to craft minecraft:foo"},
		{"craft 1 emerald block using 10 emerald", "Could not find enough items to craft minecraft:emerald_block"},
		{"craft 1 emerald block using 5 emerald, 5 emerald", "Could not find enough items to craft minecraft:emerald_block"},
		{"craft 1 emerald using 9 emerald", "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, item_id='minecraft:emerald'), count=1)"},
		{"craft 2 emerald block using 8 emerald", "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, item_id='minecraft:emerald_block'), count=2)"},
		{"craft it's using 1 emerald", `Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, item_id="minecraft:it's"), count=1)`},
		{"craft planks using 1 oak log", "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag='minecraft:planks', item_id=None), count=1)"},
		{"craft 1 planks using 4 planks", "Could not find enough items to craft None"},
		{"craft 4 oak planks using 1 oak log\nand so on", "Crafted 4 minecraft:oak_planks"},
		{"craft 9 oak planks using 1 oak log", "Crafted 4 minecraft:oak_planks"},
		{"craft oak planks using 1  oak log ", "Could not find enough items to craft minecraft:oak_planks"},
		{"inventory", "Inventory: [emerald] (9) [oak log] (1) [oak planks] (8) "},
		{"craft 1 table using 4 planks", "Could not find enough items to craft minecraft:table"},
		{"craft 1 table using 2 oak planks, 2 oak planks", "Could not find a valid recipe for ItemTagWithCount(item_tag=ItemTag(tag=None, item_id='minecraft:table'), count=1)"},
		{"craft 1 table using 4 oak planks", "Crafted 1 minecraft:table"},
		{"get 1 cushions", "Got 1 cushions"},
		{"craft 1 chair using 2 oak planks, 1 oak planks, 1 cushions", "Crafted 1 minecraft:chair"},
		{"get 99999999999999999999999 oak log", "Got 1099511627776 oak log"},
	} {
		reply := post(t, u+"/step", fmt.Sprintf(`{"action":%q,"id":0}`, tt.action))
		if got := observation(t, reply); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.action, got, tt.want)
		}
		if !strings.HasSuffix(reply, `"reward":0,"done":false}`) {
			t.Errorf("%q: %s", tt.action, reply)
		}
	}
	equal(t, post(t, u+"/step", `{"action":"craft 1 emerald block using 9 emerald","id":0}`), `{"observation":"Crafted 1 minecraft:emerald_block","reward":1,"done":true}`)
	equal(t, get(t, u+"/detail?id=0"), `{"observation":"Crafted 1 minecraft:emerald_block","done":true,"reward":1,"deleted":false}`)
	equal(t, get(t, u+"/observation?id=0"), `"Crafted 1 minecraft:emerald_block"`)
	// A step after the end of a game is valid: its reply has done false.
	equal(t, post(t, u+"/step", `{"action":"get 1 emerald","id":0}`), `{"observation":"Got 1 emerald","reward":0,"done":false}`)
	equal(t, get(t, u+"/detail?id=0"), `{"observation":"Got 1 emerald","done":false,"reward":0,"deleted":false}`)

	for _, path := range []string{"/goal", "/commands"} {
		if status, kind, text := send(t, "GET", u+path+"?id=0", "", ""); status != 500 || text != "Internal Server Error" || !strings.HasPrefix(kind, "text/plain") {
			t.Errorf("%s: %d %s %s", path, status, kind, text)
		}
	}
	equal(t, post(t, u+"/reset", `{"data_idx":null,"id":0}`), `{"error":"unsupported operand type(s) for %: 'NoneType' and 'int'"}`)
	equal(t, post(t, u+"/reset", `{"id":0}`), `{"id":0,`+first)
	if got, want := post(t, u+"/reset", `{"id":0,"data_idx":-1}`), post(t, u+"/reset", `{"id":0,"data_idx":4}`); got != want {
		t.Errorf("negative index: %s, want %s", got, want)
	}
	equal(t, post(t, u+"/close", `{"id":0}`), `true`)
	equal(t, post(t, u+"/close", `{"id":0}`), `false`)
	equal(t, post(t, u+"/step", `{"action":"x","id":0}`), `{"error":"The id 0 is not valid."}`)
	equal(t, post(t, u+"/reset", `{"id":9,"data_idx":1}`), `{"error":"The id 9 is not valid."}`)
	equal(t, get(t, u+"/observation?id=0"), `{"error":"The id 0 is not valid."}`)
	if got := post(t, u+"/create", `{}`); !strings.Contains(got, `"id":2,`) {
		t.Errorf("the reply to a create after a close is %s, want a new id", got)
	}
}

// TestOwnBook checks the size and the depths of OwnBook, the number of tasks with unneeded recipes, and that the action
// parser does not change any command.
func TestOwnBook(t *testing.T) {
	b := builtin.OwnBook()
	if b.Len() < 120 {
		t.Errorf("%d craftable items", b.Len())
	}
	depths := map[int]int{}
	goals := map[string]bool{}
	distracted := 0
	for i := range b.Len() {
		depths[b.Depth(i)]++
		goals[b.Goal(i)] = true
		if i > 0 && b.Depth(i) < b.Depth(i-1) {
			t.Errorf("task %d has a smaller depth than the previous one", i)
		}
		commands := b.Commands(i)
		if diff := cmp.Diff(commands, b.Commands(i)); diff != "" {
			t.Errorf("the commands of task %d differ between two calls: %s", i, diff)
		}
		if diff := cmp.Diff(commands, b.Commands(i+b.Len())); diff != "" {
			t.Errorf("tasks %d and %d differ: %s", i, i+b.Len(), diff)
		}
		listed := map[string]bool{}
		for _, c := range commands {
			if listed[c] {
				t.Errorf("task %d lists %q twice", i, c)
			}
			listed[c] = true
			if got, ok := action.ParseOne("Action: " + c); !ok || got != c {
				t.Errorf("%q is parsed as %q", c, got)
			}
		}
		used := 0
		for _, a := range b.Expert(i) {
			if strings.HasPrefix(a, "craft ") {
				used++
			}
		}
		if len(commands) > used {
			distracted++
		}
	}
	if len(goals) != b.Len() || len(depths) != 4 || depths[1] == 0 || depths[2] == 0 || depths[3] == 0 || depths[4] == 0 {
		t.Errorf("%d goals of %d, depths %v", len(goals), b.Len(), depths)
	}
	if distracted < b.Len()/2 {
		t.Errorf("%d tasks show unneeded recipes, want at least half of all", distracted)
	}
}

// TestTextcraftExpert checks over HTTP that the last action of the expert wins every task, within the turn limit of the
// environment.
func TestTextcraftExpert(t *testing.T) {
	s := serve(t, "textcraft", builtin.Options{})
	spec, err := env.Lookup("textcraft")
	if err != nil {
		t.Fatal(err)
	}
	b := builtin.OwnBook()
	for _, parser := range []action.Parser{action.ParserG1, action.ParserG2} {
		c := client(t, "textcraft", env.Options{BaseURL: s.URL, Parser: parser})
		for i := range b.Len() {
			actions := builtin.TextcraftExpert(i)
			if len(actions) > spec.MaxTurns {
				t.Errorf("task %d takes %d turns", i, len(actions))
			}
			for n, r := range play(t, c, i, actions) {
				if last := n == len(actions)-1; r.Done != last || spec.Success(r.Reward) != last || strings.HasPrefix(r.Observation, "Could not") {
					t.Errorf("task %d (%s), %q: %+v", i, b.Goal(i), actions[n], r)
				}
			}
		}
	}
}

func TestLoadBook(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	dir := fstest.MapFS{
		"data/recipes/b_planks.json":   file(`{"type":"minecraft:crafting_shapeless","group":"planks","ingredients":[{"tag":"minecraft:oak_logs"}],"result":{"item":"minecraft:oak_planks","count":4}}`),
		"data/recipes/c_stick.json":    file(`{"type":"minecraft:crafting_shaped","group":"sticks","pattern":["#","#"],"key":{"#":{"tag":"minecraft:planks"}},"result":{"item":"minecraft:stick","count":4}}`),
		"data/recipes/d_pick.json":     file(`{"type":"minecraft:crafting_shaped","pattern":["XXX"," # "," # "],"key":{"#":{"item":"minecraft:stick"},"X":[{"item":"minecraft:flint"},{"item":"minecraft:shell"}]},"result":"minecraft:pick"}`),
		"data/recipes/a_mix.json":      file(`{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"minecraft:x"},{"item":"minecraft:y"},[{"item":"minecraft:x"}]],"result":{"item":"minecraft:mix"}}`),
		"data/recipes/e_smelt.json":    file(`{"type":"minecraft:smelting","result":"minecraft:glass"}`),
		"data/recipes/f_unpack.json":   file(`{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"minecraft:flint_block"}],"result":{"item":"minecraft:flint","count":9}}`),
		"data/recipes/g_cycle.json":    file(`{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"minecraft:pick"}],"result":"minecraft:stick"}`),
		"data/recipes/h_loop.json":     file(`{"type":"minecraft:crafting_shapeless","group":"loops","ingredients":[{"item":"minecraft:knot"}],"result":"minecraft:loop"}`),
		"data/recipes/i_knot.json":     file(`{"type":"minecraft:crafting_shapeless","ingredients":[{"tag":"minecraft:loops"}],"result":"minecraft:knot"}`),
		"data/recipes/readme.txt":      file(`not a recipe`),
		"data/recipes/sub/ignored.jso": file(``),
	}
	b, err := builtin.LoadBook(dir, "data")
	if err != nil {
		t.Fatal(err)
	}
	var goals []string
	for i := range b.Len() {
		goals = append(goals, fmt.Sprintf("%d %s: %s", b.Depth(i), b.Goal(i), strings.Join(b.Expert(i), "; ")))
	}
	want := []string{
		"1 mix: get 2 x; get 1 y; craft 1 mix using 2 x, 1 y",
		"1 oak planks: get 1 oak logs; craft 4 oak planks using 1 oak logs",
		"2 stick: get 1 oak logs; craft 4 oak planks using 1 oak logs; craft 4 stick using 2 oak planks",
		"3 pick: get 1 oak logs; get 3 flint; craft 4 oak planks using 1 oak logs; craft 4 stick using 2 oak planks; craft 1 pick using 2 stick, 3 flint",
	}
	if diff := cmp.Diff(want, goals); diff != "" {
		t.Error(diff)
	}
	s := serve(t, "textcraft", builtin.Options{Recipes: b})
	c := client(t, "textcraft", env.Options{BaseURL: s.URL})
	for i := range b.Len() {
		results := play(t, c, i, b.Expert(i))
		if last := results[len(results)-1]; last.Reward != 1 || !last.Done {
			t.Errorf("task %d: %+v", i, last)
		}
	}
	if flat, err := builtin.LoadBook(dir, "data/recipes"); err != nil || flat.Len() != b.Len() {
		t.Errorf("a folder without recipes/: %v", err)
	}

	for name, text := range map[string]string{
		"not JSON":       `{`,
		"no item":        `{"type":"minecraft:crafting_shapeless","ingredients":[{}],"result":"minecraft:x"}`,
		"no choice":      `{"type":"minecraft:crafting_shapeless","ingredients":[[]],"result":"minecraft:x"}`,
		"no ingredients": `{"type":"minecraft:crafting_shapeless","result":"minecraft:x"}`,
		"no key":         `{"type":"minecraft:crafting_shaped","pattern":["#"],"result":"minecraft:x"}`,
		"unused key":     `{"type":"minecraft:crafting_shaped","pattern":["#"],"key":{"x":{"item":"minecraft:y"}},"result":"minecraft:x"}`,
		"no result":      `{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"minecraft:y"}]}`,
		"bad count":      `{"type":"minecraft:crafting_shapeless","ingredients":[{"item":"minecraft:y"}],"result":{"item":"minecraft:x","count":-1}}`,
	} {
		_, err := builtin.LoadBook(fstest.MapFS{"bad.json": file(text)}, "")
		if err == nil || !strings.Contains(err.Error(), "bad.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := builtin.LoadBook(fstest.MapFS{"x.json": file(`{"type":"minecraft:smelting"}`)}, ""); err == nil {
		t.Error("a folder without recipe files: no error")
	}
	if _, err := builtin.LoadBook(fstest.MapFS{}, "missing"); err == nil {
		t.Error("a missing folder: no error")
	}
}

func TestParseBookFaults(t *testing.T) {
	for _, text := range []string{
		"", "# nothing", "1 a", "1 a = ", "1 a = b", "a = 1 b", "0 a = 1 b", "1 a = 1 b,1 c",
		"1 A = 1 b", "1 a [] = 1 b", "1 a = 1 [b", "1 a_b = 1 c", "1 a = 1 a", "99999 a = 1 b",
	} {
		if _, err := builtin.ParseBook(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
