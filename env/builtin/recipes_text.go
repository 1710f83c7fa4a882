package builtin

import (
	"bufio"
	_ "embed" // the recipe book
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed recipes.txt
var recipesText string

// ownBook parses the embedded book once. It panics if the book is invalid, which tests exclude.
var ownBook = sync.OnceValue(func() *Book {
	b, err := ParseBook(recipesText)
	if err != nil {
		panic("embedded recipe book: " + err.Error())
	}
	return b
})

// OwnBook returns the project's own recipe book.
func OwnBook() *Book { return ownBook() }

var (
	outputForm     = regexp.MustCompile(`^([1-9][0-9]{0,3}) ([a-z]+(?: [a-z]+)*)(?: \[([a-z]+(?: [a-z]+)*)\])?$`)
	ingredientForm = regexp.MustCompile(`^([1-9][0-9]{0,3}) (?:([a-z]+(?: [a-z]+)*)|\[([a-z]+(?: [a-z]+)*)\])$`)
)

// ParseBook parses recipes in the format that the head of recipes.txt describes.
func ParseBook(text string) (*Book, error) {
	var list []recipe
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		r, err := parseRecipe(line)
		if err != nil {
			return nil, fmt.Errorf("recipe line %d: %w", n, err)
		}
		list = append(list, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("recipes: %w", err)
	}
	return newBook(list)
}

func parseRecipe(line string) (recipe, error) {
	left, right, ok := strings.Cut(line, " = ")
	if !ok {
		return recipe{}, fmt.Errorf("%q has no \" = \"", line)
	}
	m := outputForm.FindStringSubmatch(left)
	if m == nil {
		return recipe{}, fmt.Errorf("%q is not of the form COUNT ITEM [GROUP]", left)
	}
	r := recipe{item: itemID(m[2]), count: smallNumber(m[1])}
	if m[3] != "" {
		r.group = itemID(m[3])
	}
	for _, part := range strings.Split(right, ", ") {
		m := ingredientForm.FindStringSubmatch(part)
		if m == nil {
			return recipe{}, fmt.Errorf("%q is not of the form COUNT INGREDIENT or COUNT [GROUP]", part)
		}
		in := ingredient{id: itemID(m[2]), count: smallNumber(m[1])}
		if m[3] != "" {
			in = ingredient{id: itemID(m[3]), group: true, count: in.count}
		}
		r.in = append(r.in, in)
	}
	return r, nil
}

// smallNumber parses at most four digits.
func smallNumber(digits string) int64 {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
