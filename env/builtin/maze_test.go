package builtin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
)

// TestMazeWire checks the replies of the protocol, section 5.5, byte for byte.
func TestMazeWire(t *testing.T) {
	u := serve(t, "maze", builtin.Options{}).URL
	equal(t, get(t, u+"/"), `"This is environment LMRL-Gym."`)
	equal(t, get(t, u+"/maze/available_actions"), `["move left","move right","move up","move down"]`)
	equal(t, post(t, u+"/maze/create", ""), `{"id":0}`)
	equal(t, post(t, u+"/maze/create", ""), `{"id":1}`)

	equal(t, post(t, u+"/maze/step", `{"action":"move up","id":0}`), `{"error":"0"}`)
	equal(t, get(t, u+"/maze/observation?id=0"), `{"error":"'observation'"}`)
	equal(t, get(t, u+"/maze/detail?id=0"), `{"error":"'goal_position'"}`)

	const at = `The goal is at position 8, 6. Your current position is at position 7, 6. There are walls to your right, to your left.`
	equal(t, post(t, u+"/maze/reset", `{"game":18,"id":0}`), `{"observation":"`+at+`"}`)
	equal(t, post(t, u+"/maze/step", `{"action":"fly","id":0}`), `{"observation":"`+at+`","reward":0,"done":false}`)
	equal(t, get(t, u+"/maze/observation?id=0"), `"`+at+`"`)
	equal(t, get(t, u+"/maze/detail?id=0"), `{"maze_name":"double_t_maze","observation":"`+at+`","done":false,"reward":0,"deleted":false}`)
	equal(t, post(t, u+"/maze/step", `{"action":"move down","id":0}`), `{"observation":"Success\n","reward":1.0,"done":true}`)
	const finished = `{"error":"The task with environment 0 has finished."}`
	equal(t, post(t, u+"/maze/step", `{"action":"move down","id":0}`), finished)
	equal(t, get(t, u+"/maze/observation?id=0"), finished)
	equal(t, get(t, u+"/maze/detail?id=0"), finished)

	for _, tt := range []struct{ game, want string }{
		{"0", `{"observation":"The goal is at position 8, 6. Your current position is at position 1, 1. There are walls to your left, above you, below you."}`},
		{"9", `{"observation":"The goal is at position 8, 6. Your current position is at position 1, 11. There are walls to your right, above you, below you."}`},
		{"2", `{"observation":"The goal is at position 8, 6. Your current position is at position 1, 3. There is a wall above you."}`},
		{"25", `{"error":""}`},
		{"26", `{"error":"The game 26 is not valid."}`},
		{"-1", `{"error":""}`},
		{"-26", `{"observation":"The goal is at position 8, 6. Your current position is at position 1, 1. There are walls to your left, above you, below you."}`},
		{"-27", `{"error":"list index out of range"}`},
	} {
		equal(t, post(t, u+"/maze/reset", `{"game":`+tt.game+`,"id":0}`), tt.want)
	}
	equal(t, post(t, u+"/maze/reset", `{"game":1,"id":7}`), `{"error":"The id 7 is not valid."}`)
	equal(t, post(t, u+"/maze/step", `{"id":-1,"action":"x"}`), `{"error":"The id -1 is not valid."}`)
	equal(t, get(t, u+"/maze/observation?id=7"), `{"error":"The id 7 is not valid."}`)
}

// TestMazeFailedReset checks that a failed reset does not change the episode.
func TestMazeFailedReset(t *testing.T) {
	u := serve(t, "maze", builtin.Options{}).URL
	post(t, u+"/maze/create", "")
	post(t, u+"/maze/reset", `{"game":18,"id":0}`)
	post(t, u+"/maze/reset", `{"game":25,"id":0}`)
	equal(t, post(t, u+"/maze/step", `{"action":"move down","id":0}`), `{"observation":"Success\n","reward":1.0,"done":true}`)
}

// TestMazeMap checks all four moves from every free cell listed in section 5.5.
func TestMazeMap(t *testing.T) {
	free := map[[2]int]bool{}
	span := func(r0, c0, r1, c1 int) {
		for r := r0; r <= r1; r++ {
			for c := c0; c <= c1; c++ {
				free[[2]int{r, c}] = true
			}
		}
	}
	span(1, 1, 1, 5)
	span(1, 7, 1, 11)
	span(1, 3, 5, 3)
	span(1, 9, 5, 9)
	span(5, 3, 5, 9)
	span(5, 6, 8, 6)
	u := serve(t, "maze", builtin.Options{}).URL
	post(t, u+"/maze/create", "")
	starts := map[[2]int]bool{{8, 6}: true}
	for game := range builtin.MazeGames {
		row, col := builtin.MazeStart(game)
		starts[[2]int{row, col}] = true
		for i, by := range [][2]int{{0, 1}, {0, -1}, {-1, 0}, {1, 0}} {
			post(t, u+"/maze/reset", fmt.Sprintf(`{"game":%d,"id":0}`, game))
			action := []string{"move right", "move left", "move up", "move down"}[i]
			got := observation(t, post(t, u+"/maze/step", fmt.Sprintf(`{"action":%q,"id":0}`, action)))
			to := [2]int{row + by[0], col + by[1]}
			if !free[to] {
				to = [2]int{row, col}
			}
			want := fmt.Sprintf("Your current position is at position %d, %d.", to[0], to[1])
			if to == [2]int{8, 6} {
				want = "Success\n"
			}
			if !strings.Contains(got, want) {
				t.Errorf("game %d, %s: %q, want %q", game, action, got, want)
			}
		}
	}
	if len(starts) != len(free) {
		t.Errorf("got %d start cells and %d free cells, want equal numbers", len(starts), len(free))
	}
	for c := range starts {
		if !free[c] {
			t.Errorf("start %v is a wall", c)
		}
	}
}

func TestMazeStepLimit(t *testing.T) {
	u := serve(t, "maze", builtin.Options{}).URL
	post(t, u+"/maze/create", "")
	for range 2 { // the second reset restores the limit
		post(t, u+"/maze/reset", `{"game":18,"id":0}`)
		for i := range 50 {
			action := []string{"move up", "fly", "move left", "move down"}[min(i, 3)]
			if i > 3 {
				action = "move left"
			}
			if got := post(t, u+"/maze/step", fmt.Sprintf(`{"action":%q,"id":0}`, action)); !strings.HasSuffix(got, `"reward":0,"done":false}`) {
				t.Fatalf("step %d: %s", i+1, got)
			}
		}
		equal(t, post(t, u+"/maze/step", `{"action":"move down","id":0}`), `{"observation":"Failure\n","reward":-1.0,"done":true}`)
		equal(t, post(t, u+"/maze/step", `{"action":"move down","id":0}`), `{"error":"The task with environment 0 has finished."}`)
	}
}

// TestMazeExpert checks that the expert wins every game through the client of package env with as few actions as a
// shortest path has moves.
func TestMazeExpert(t *testing.T) {
	s := serve(t, "maze", builtin.Options{})
	c := client(t, "maze", env.Options{BaseURL: s.URL})
	spec, err := env.Lookup("maze")
	if err != nil {
		t.Fatal(err)
	}
	for game := range builtin.MazeGames {
		actions := builtin.MazeExpert(game)
		row, col := builtin.MazeStart(game)
		fewest := 8 - row + abs(col-6)
		if row < 5 { // the shortest path follows row 1 to the arm, then the arm down
			arm := 3
			if col > 6 {
				arm = 9
			}
			fewest = abs(col-arm) + 5 - row + abs(arm-6) + 3
		}
		if len(actions) != fewest || len(actions) > spec.MaxTurns {
			t.Errorf("game %d: %d actions, want %d", game, len(actions), fewest)
		}
		texts := builtin.MazePath(game)
		obs, err := c.Reset(context.Background(), game)
		if err != nil || obs.Text != texts[0] {
			t.Fatalf("game %d: %q, %v", game, obs.Text, err)
		}
		for i, r := range play(t, c, game, actions) {
			if r.Observation != texts[i+1] {
				t.Errorf("game %d, step %d: %q, want %q", game, i, r.Observation, texts[i+1])
			}
			if last := i == len(actions)-1; r.Done != last || spec.Success(r.Reward) != last {
				t.Errorf("game %d, step %d: %+v", game, i, r)
			}
		}
	}
	for _, game := range []int{-1, 25, 26} {
		if builtin.MazeExpert(game) != nil || builtin.MazePath(game) != nil {
			t.Errorf("MazeExpert(%d) is not nil", game)
		}
	}
}

func abs(x int) int { return max(x, -x) }
