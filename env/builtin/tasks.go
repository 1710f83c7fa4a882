package builtin

import (
	"math/rand/v2"
	"strings"
)

// maxDistractors is how many recipes beside the point a task shows at most.
const maxDistractors = 10

// Commands gives the recipe lines of task index: all that lead to its goal,
// at every depth and by every way, and some that use the same things for
// something else, mixed. They depend on the index alone; the original's vary
// with Python's string hashing from start to start.
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

// taskText is the first observation of task index.
func (b *Book) taskText(index int) string {
	return "Crafting commands:\n" + strings.Join(b.Commands(index), "\n") + "\n\nGoal: craft " + b.Goal(index) + "."
}
