package check

import (
	"regexp"
	"strconv"
	"strings"
)

// This file contains a simple TextCraft player that can finish some tasks. It gets
// the items without a listed recipe and crafts the others.

var (
	craftLine = regexp.MustCompile(`(?m)^craft (\d+) (.+?) using (.+)$`)
	craftGoal = regexp.MustCompile(`Goal: craft (.+)\.`)
)

type craftRecipe struct {
	line  string
	count int
	parts []craftNeed
}

type craftNeed struct {
	count int
	item  string
}

// craftRecipes returns the recipes in a first observation by the name of their product.
func craftRecipes(opening string) map[string]craftRecipe {
	made := map[string]craftRecipe{}
	for _, m := range craftLine.FindAllStringSubmatch(opening, -1) {
		count, err := strconv.Atoi(m[1])
		if err != nil || made[m[2]].line != "" {
			continue
		}
		r := craftRecipe{line: m[0], count: count}
		for part := range strings.SplitSeq(m[3], ", ") {
			number, item, _ := strings.Cut(part, " ")
			if n, err := strconv.Atoi(number); err == nil {
				r.parts = append(r.parts, craftNeed{n, item})
			}
		}
		made[m[2]] = r
	}
	return made
}

// craftPlan returns the actions that produce count units of an item, or nil if it finds none.
func craftPlan(made map[string]craftRecipe, item string, count, depth int) []string {
	r, ok := made[item]
	if !ok {
		return []string{"get " + strconv.Itoa(count) + " " + item}
	}
	if depth == 0 || r.count < 1 || count > 64 {
		return nil // the recipes form a cycle, or need too many steps
	}
	var plan []string
	for range (count + r.count - 1) / r.count {
		for _, p := range r.parts {
			plan = append(plan, craftPlan(made, p.item, p.count, depth-1)...)
		}
		plan = append(plan, r.line)
	}
	return plan
}

// craftFinish returns action n of the plan for the current task. It makes the plan when n is 0.
func craftFinish(c *checker, last string, n int) string {
	if n == 0 {
		c.plan = nil
		if m := craftGoal.FindStringSubmatch(last); m != nil {
			c.plan = craftPlan(craftRecipes(last), m[1], 1, 6)
		}
	}
	if n >= len(c.plan) || n >= 100 {
		return ""
	}
	return c.plan[n]
}

// craftActions returns actions that get an item without a recipe and list the inventory.
func craftActions(_ *checker, reset any) []string {
	opening := observationOf(reset)
	made := craftRecipes(opening)
	item := "oak log"
	for _, m := range craftLine.FindAllStringSubmatch(opening, -1) {
		if parts := made[m[2]].parts; len(parts) > 0 && made[parts[0].item].line == "" {
			item = parts[0].item
			break
		}
	}
	return []string{"inventory", "get 1 " + item, "inventory", "get 2 " + item, "inventory"}
}
