package builtin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openmanus/openmanus/env"
	"github.com/openmanus/openmanus/env/builtin"
)

// TestWordleFeedback checks the feedback of pairs of words. Some pairs are from the transcript in the protocol, section
// 5.6.
func TestWordleFeedback(t *testing.T) {
	for _, tt := range []struct{ guess, secret, want string }{
		{"panic", "knoll", "b b y b b\n"},
		{"panic", "thorn", "b b y b b\n"},
		{"robot", "robot", "g g g g g\n"},
		{"robot", "point", "b g b y g\n"},
		{"skill", "knoll", "b y b g g\n"},
		{"elder", "perky", "y b b y y\n"}, // both letters e of the guess are y
	} {
		words, err := builtin.ParseVocabulary(tt.secret)
		if err != nil {
			t.Fatal(err)
		}
		if tt.guess != tt.secret {
			// A vocabulary of both words has seeds that draw the secret.
			if words, err = builtin.ParseVocabulary(tt.secret + " " + tt.guess); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]bool{}
		for seed := range 20 {
			u := serveWordle(t, words)
			post(t, u+"/create", "")
			post(t, u+"/reset", fmt.Sprintf(`{"id":0,"seed":%d}`, seed))
			got[observation(t, post(t, u+"/step", `{"id":0,"action":"`+tt.guess+`"}`))] = true
		}
		if !got[tt.want] {
			t.Errorf("%s against %s: %v, want %q", tt.guess, tt.secret, got, tt.want)
		}
	}
}

func serveWordle(t *testing.T, v *builtin.Vocabulary) string {
	t.Helper()
	return serve(t, "wordle", builtin.Options{Vocabulary: v}).URL + "/wordle"
}

func words(t *testing.T, reply string) []string {
	t.Helper()
	var w []string
	if err := json.Unmarshal([]byte(reply), &w); err != nil {
		t.Fatalf("%s: %v", reply, err)
	}
	return w
}

// TestWordleReplies checks the replies byte for byte.
func TestWordleReplies(t *testing.T) {
	u := serveWordle(t, nil)
	equal(t, get(t, strings.TrimSuffix(u, "wordle")), `"This is environment LMRL-Gym."`)
	equal(t, post(t, u+"/create", ""), `{"id":0}`)
	equal(t, get(t, u+"/observation?id=0"), `{"error":"'observation'"}`)
	equal(t, get(t, u+"/detail?id=0"), `{"done":false,"reward":0,"deleted":false}`)
	all := words(t, get(t, u+"/filtered_vocab?id=0"))
	if len(all) != 40 || all[0] != "panic" || all[39] != "trove" {
		t.Errorf("%d words: %v", len(all), all)
	}
	equal(t, post(t, u+"/reset", `{"seed":3,"id":0}`), `{"id":0,"observation":"Let's start Wordle!"}`)
	equal(t, get(t, u+"/observation?id=0"), `"Let's start Wordle!"`)
	equal(t, post(t, u+"/step", `{"id":0,"action":"zzzzz"}`), `{"observation":"invalid word","reward":0.0,"done":false}`)
	equal(t, post(t, u+"/step", `{"id":0,"action":"P a n i c"}`), `{"observation":"invalid word","reward":0.0,"done":false}`)
	equal(t, get(t, u+"/detail?id=0"), `{"done":false,"reward":0,"deleted":false,"seed":3,"observation":"invalid word"}`)
	first := observation(t, post(t, u+"/step", `{"id":0,"action":" p a n i c "}`))
	left := words(t, get(t, u+"/filtered_vocab?id=0"))
	if len(left) == 0 || len(left) >= 40 || slices.Contains(left, "panic") {
		t.Errorf("after %q there are %v", first, left)
	}
	for range 2 {
		equal(t, post(t, u+"/step", `{"id":0,"action":""}`), `{"observation":"invalid word","reward":0.0,"done":false}`)
	}
	equal(t, post(t, u+"/step", `{"id":0,"action":"too long"}`), `{"observation":"invalid word","reward":0.0,"done":true}`)
	const over = `{"error":"The task with environment 0 has finished."}`
	equal(t, post(t, u+"/step", `{"id":0,"action":"panic"}`), over)
	equal(t, get(t, u+"/filtered_vocab?id=0"), over)
	equal(t, get(t, u+"/observation?id=0"), over)
	equal(t, get(t, u+"/detail?id=0"), over)
	equal(t, post(t, u+"/reset", `{"seed":3,"id":0}`), `{"id":0,"observation":"Let's start Wordle!"}`)
	equal(t, observation(t, post(t, u+"/step", `{"id":0,"action":"panic"}`)), first)
	equal(t, post(t, u+"/step", `{"id":7,"action":"panic"}`), `{"error":"The id 7 is not valid."}`)
	if status, _, text := send(t, "POST", u+"/close", "application/json", `{"id":0}`); status != 404 {
		t.Errorf("close: %d %s", status, text)
	}
}

// TestWordleGames checks that a solved game has the integer reward 1, and that the seed determines the game.
func TestWordleGames(t *testing.T) {
	one, err := builtin.ParseVocabulary("solar")
	if err != nil {
		t.Fatal(err)
	}
	u := serveWordle(t, one)
	post(t, u+"/create", "")
	post(t, u+"/reset", `{"seed":0,"id":0}`)
	equal(t, post(t, u+"/step", `{"id":0,"action":"s o l a r"}`), `{"observation":"g g g g g\n","reward":1,"done":true}`)

	u = serveWordle(t, nil)
	post(t, u+"/create", "")
	game := func(seed int) string {
		post(t, u+"/reset", fmt.Sprintf(`{"seed":%d,"id":0}`, seed))
		var b strings.Builder
		for _, w := range []string{"panic", "solar", "shire"} {
			b.WriteString(post(t, u+"/step", `{"id":0,"action":"`+w+`"}`))
		}
		return b.String()
	}
	different := map[string]bool{}
	for seed := range 8 {
		a := game(seed)
		different[a] = true
		if b := game(seed); a != b {
			t.Errorf("seed %d: the seed gave two different games:\n%s\n%s", seed, a, b)
		}
	}
	if len(different) < 2 {
		t.Error("all seeds have the same game")
	}
}

// TestWordleExpert checks that the expert wins games through the client of package env.
func TestWordleExpert(t *testing.T) {
	u := serve(t, "wordle", builtin.Options{}).URL
	c := client(t, "wordle", env.Options{BaseURL: u})
	defer c.Close(context.Background())
	for seed := range 100 {
		guesses := builtin.WordleExpert(builtin.OwnVocabulary(), int64(seed))
		if len(guesses) == 0 || len(guesses) > 6 {
			t.Fatalf("seed %d: %v", seed, guesses)
		}
		results := play(t, c, seed, guesses)
		if last := results[len(results)-1]; !last.Done || last.Reward != 1 {
			t.Errorf("seed %d: %v ended with %+v", seed, guesses, last)
		}
	}
	obs, err := c.Reset(context.Background(), 1)
	if err != nil || strings.Count(obs.Text, "\n") < 40 {
		t.Errorf("%q, %v", obs.Text, err)
	}
	// In a vocabulary of one word the first guess is right.
	v, err := builtin.ParseVocabulary("aaaab")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a a a a b"}, builtin.WordleExpert(v, 5)); diff != "" {
		t.Error(diff)
	}
}

func TestParseVocabulary(t *testing.T) {
	v, err := builtin.ParseVocabulary("panic\r\nsolar\n\n  trove shire\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"panic", "solar", "trove", "shire"}, v.Words()); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"":               "empty",
		" \n":            "empty",
		"panic\nsix66":   "line 2",
		"Panic":          "a to z",
		"panics":         "five letters",
		"panic\n\npanic": "line 3",
		"héros":          "a to z",
	} {
		if v, err := builtin.ParseVocabulary(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, v, err, want)
		}
	}
	if _, err := builtin.New("maze", builtin.Options{Vocabulary: v}); err == nil {
		t.Error("maze with a vocabulary: no error")
	}
}
