package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openmanus/openmanus/configs"
)

// lessons/NAME.toml is the configuration of a lesson, with the split of seed 1.
//
//go:embed lessons
var lessonFiles embed.FS

// lesson is a task distribution that a small model learns, with a configuration and changes to it.
type lesson struct {
	name string
	base string   // lessons/BASE.toml, and the environment
	pool string   // indices of all tasks, to split; empty: the configuration names the split
	held int      // validation tasks, drawn at random
	show int      // training tasks whose solutions the supervised start uses
	sets []string // changes of the configuration
	// files writes the files that the configuration names, other than task indices, to the folder of the run.
	files func(l lesson, dir string, rng *rand.Rand) error
}

// lessons are run in this order. The second and third are the first by PPO with a critic and by LoRA.
var lessons = []lesson{
	{name: "arithmetic", base: "arithmetic", held: 200, show: 128, files: writeSums},
	{name: "arithmetic-ppo", base: "arithmetic", held: 200, show: 128, files: writeSums, sets: []string{
		"algo.adv_estimator=gae", "algo.filter_groups=false", "critic.optim.lr=2e-5", "critic.mini_batch_size=0", "critic.micro_batch_size=32", "trainer.critic_warmup=5",
	}},
	{name: "arithmetic-lora", base: "arithmetic", held: 200, show: 128, files: writeSums, sets: []string{
		"model.lora_rank=16", "model.lora_alpha=32", "actor.optim.lr=2e-4", "sft.optim.lr=5e-4",
	}},
	{name: "maze", base: "maze", pool: "0-24", held: 8, show: 8},
	{name: "textcraft", base: "textcraft", pool: "0-42", held: 16, show: 20},
	{name: "wordle", base: "wordle", held: 200, show: 48, files: writeWords},
}

// lessonsNamed returns the named lessons, or all if names is empty.
func lessonsNamed(names []string) ([]lesson, error) {
	if len(names) == 0 {
		return lessons, nil
	}
	var known []string
	for _, l := range lessons {
		known = append(known, l.name)
	}
	var out []lesson
	for i, name := range names {
		at := slices.Index(known, name)
		if at < 0 {
			return nil, fmt.Errorf("unknown lesson %q; use one of %s", name, strings.Join(known, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("%s is named twice", name)
		}
		out = append(out, lessons[at])
	}
	return out, nil
}

// prepare writes the configuration and the files of the lesson to the folder dir, and returns the settings that split the
// tasks. The split depends on the seed only.
func (l lesson) prepare(dir string, seed int) (sets []string, err error) {
	text, err := lessonFiles.ReadFile("lessons/" + l.base + ".toml")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, l.base+".toml"), text, 0o644); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 19))
	if l.files != nil {
		if err := l.files(l, dir, rng); err != nil {
			return nil, err
		}
	}
	if l.pool == "" {
		return l.sets, nil
	}
	pool, err := configs.ParseIndices(l.pool)
	if err != nil {
		return nil, err
	}
	val, train := split(rng, pool, l.held)
	env := "env." + l.base
	return append(slices.Clone(l.sets), env+".tasks="+indices(train), env+".val_tasks="+indices(val), env+".expert_tasks="+indices(train[:l.show])), nil
}

// split returns n of the tasks at random, and the others in random order.
func split[T any](rng *rand.Rand, tasks []T, n int) (held, others []T) {
	tasks = slices.Clone(tasks)
	rng.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	return tasks[:n], tasks[n:]
}

// indices writes task indices as in a configuration.
func indices(tasks []int) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(slices.Sorted(slices.Values(tasks)))), ","), "[]")
}

// trainSums is the number of sums for training.
const trainSums = 2000

// writeSums writes train.jsonl and val.jsonl, sums of two different numbers of two digits, and solved.jsonl, the training sums of the
// supervised start. No two rows of train.jsonl and val.jsonl have the same two numbers, in either order.
func writeSums(l lesson, dir string, rng *rand.Rand) error {
	var rows [][]byte
	for a := 10; a < 100; a++ {
		for b := a + 1; b < 100; b++ {
			row, err := json.Marshal(map[string]string{"question": question(a, b), "answer": fmt.Sprint(a + b)})
			if err != nil {
				return err
			}
			rows = append(rows, append(row, '\n'))
		}
	}
	val, train := split(rng, rows, l.held)
	for name, rows := range map[string][][]byte{"val.jsonl": val, "train.jsonl": train[:trainSums], "solved.jsonl": train[:l.show]} {
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Join(rows, nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// question asks for the sum of two numbers, the larger one first if their sum is odd.
func question(a, b int) string {
	if (a+b)%2 == 1 {
		a, b = b, a
	}
	return fmt.Sprintf("What is %d + %d?", a, b)
}

// fewWords is the vocabulary of the lesson wordle.
const fewWords = "panic solar shire proxy point robot prick wince light those moist shard\n"

// writeWords writes the vocabulary and the program of the shaped reward.
func writeWords(_ lesson, dir string, _ *rand.Rand) error {
	program, err := lessonFiles.ReadFile("lessons/wordle_reward.py")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "wordle_reward.py"), program, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "words.txt"), []byte(fewWords), 0o644)
}
