package builtin

import (
	"math/rand/v2"
	"strings"
)

// maxDistractors is the largest number of unneeded recipes that a task shows.
const maxDistractors = 10

// Commands returns the recipe lines of task index: all recipes that lead to the goal
// at any depth, and some other recipes with the same ingredients, shuffled. The lines
// depend only on the index. In AgentGym the lines also depend on Python's hashing of
// strings, which differs each time the server starts.
func (b *Book) Commands(index int) []string {
	goal := b.goal(index)
	rng := rand.New(rand.NewPCG(uint64(len(b.tasks)), uint64(((index%len(b.tasks))+len(b.tasks))%len(b.tasks))))
	var needed []*recipe
	var lines []string
	shown := map[string]bool{}
	visited := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if visited[name] {
			return
		}
		visited[name] = true
		recipes := b.byItem[name]
		if len(recipes) == 0 {
			recipes = b.byGroup[name]
		}
		for _, r := range recipes {
			if line := r.String(); !shown[line] {
				shown[line] = true
				lines = append(lines, line)
				needed = append(needed, r)
			}
			for _, in := range r.in {
				visit(in.id)
			}
		}
	}
	visit(goal)
	var others []string
	for _, r := range needed {
		for _, in := range r.in {
			uses := b.uses[in.id]
			for _, i := range rng.Perm(len(uses))[:min(len(uses), maxDistractors)] {
				if line := uses[i].String(); !shown[line] {
					shown[line] = true
					others = append(others, line)
				}
			}
		}
	}
	rng.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	lines = append(lines, others[:min(len(others), maxDistractors)]...)
	rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	return lines
}

// taskText returns the first observation of task index.
func (b *Book) taskText(index int) string {
	return "Crafting commands:\n" + strings.Join(b.Commands(index), "\n") + "\n\nGoal: craft " + b.Goal(index) + "."
}
