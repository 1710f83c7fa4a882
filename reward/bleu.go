package reward

import (
	"math"
	"regexp"
	"strings"

	"github.com/openmanus/openmanus/data/registry"
)

// BLEU-4 of one sentence, from 0 to 1:
// BP · exp(1/N Σ_n log p_n), p_n the clipped precision of n-grams (clipped by
// the largest count in any target), BP = exp(1 - r/c) for c < r, r the length
// of the target nearest in length.
//
// bleu equals sacreBLEU's sentence_bleu / 100 (Post 2018, "A Call for Clarity
// in Reporting BLEU Scores"): 13a tokens, case kept, effective order, and exp
// smoothing: the k-th n without a match counts 1/2^k matches. The golden
// numbers of TestSacreBLEU are sacreBLEU's.
//
// bleu_addone is the variant of spec 6.3: words after normalisation (lower
// case, no punctuation; articles stay), and one added to matches and total for
// n >= 2 (Lin and Och 2004).
func init() {
	bleu := func(score func(answer string, targets []string) float64) Function {
		return answerFunction(0, func(_ registry.Values, answer string, targets []string) Score {
			return Score{Value: score(answer, targets)}
		})
	}
	params := []registry.Param{minAnswerTags.Param}
	Functions.Add(registry.Entry{Name: "bleu", Doc: "BLEU of the answer, as sacreBLEU computes it", Params: params}, bleu(sacreBLEU))
	Functions.Add(registry.Entry{Name: "bleu_addone", Doc: "BLEU of the answer with add-one smoothing", Params: params}, bleu(addOneBLEU))
}

const bleuOrder = 4

// ngramCounts holds the matches and totals of each order, and the lengths c and r.
type ngramCounts struct {
	match, total [bleuOrder]int
	c, r         int
}

func countNgrams(text string, references []string, tokens func(string) []string) ngramCounts {
	answer := tokens(text)
	n := ngramCounts{c: len(answer), r: -1}
	var targets [][]string
	for _, r := range references {
		t := tokens(r)
		targets = append(targets, t)
		d, best := abs(len(t)-n.c), abs(n.r-n.c)
		if n.r < 0 || d < best || d == best && len(t) < n.r {
			n.r = len(t)
		}
	}
	for k := range bleuOrder {
		most := map[string]int{}
		for _, t := range targets {
			for g, count := range ngrams(t, k+1) {
				most[g] = max(most[g], count)
			}
		}
		for g, count := range ngrams(answer, k+1) {
			n.match[k] += min(count, most[g])
			n.total[k] += count
		}
	}
	return n
}

func ngrams(words []string, n int) map[string]int {
	counts := map[string]int{}
	for i := 0; i+n <= len(words); i++ {
		counts[strings.Join(words[i:i+n], "\x00")]++
	}
	return counts
}

func abs(n int) int { return max(n, -n) }

func sacreBLEU(answer string, targets []string) float64 {
	n := countNgrams(answer, targets, tokens13a)
	if n.match == [bleuOrder]int{} {
		return 0
	}
	sum, order, smooth := 0.0, 0, 1.0
	for k := range bleuOrder {
		if n.total[k] == 0 {
			break
		}
		order = k + 1
		p := float64(n.match[k]) / float64(n.total[k])
		if n.match[k] == 0 {
			smooth *= 2
			p = 1 / (smooth * float64(n.total[k]))
		}
		sum += math.Log(p)
	}
	return brevity(n.c, n.r) * math.Exp(sum/float64(order))
}

func addOneBLEU(answer string, targets []string) float64 {
	n := countNgrams(answer, targets, func(s string) []string { return strings.Fields(normalizeText(s)) })
	if n.match[0] == 0 {
		return 0
	}
	sum := math.Log(float64(n.match[0]) / float64(n.total[0]))
	for k := 1; k < bleuOrder; k++ {
		sum += math.Log(float64(n.match[k]+1) / float64(n.total[k]+1))
	}
	return brevity(n.c, n.r) * math.Exp(sum/bleuOrder)
}

func brevity(c, r int) float64 {
	if c >= r {
		return 1
	}
	if c == 0 {
		return 0
	}
	return math.Exp(1 - float64(r)/float64(c))
}

// The rules of NIST's mteval-v13a for languages written in Latin letters.
var (
	symbols13a = regexp.MustCompile("([{-~\\[-` -&(-+:-@/])")
	before13a  = regexp.MustCompile(`([^0-9])([.,])`)
	after13a   = regexp.MustCompile(`([.,])([^0-9])`)
	dash13a    = regexp.MustCompile(`([0-9])(-)`)
)

func tokens13a(line string) []string {
	line = strings.TrimRight(line, " \t\r\n\v\f")
	line = strings.ReplaceAll(line, "<skipped>", "")
	line = strings.ReplaceAll(line, "-\n", "")
	line = strings.ReplaceAll(line, "\n", " ")
	if strings.Contains(line, "&") {
		// The replacements run in sequence, as in sacreBLEU: "&amp;lt;" becomes "<".
		for _, e := range [][2]string{{"&quot;", `"`}, {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}} {
			line = strings.ReplaceAll(line, e[0], e[1])
		}
	}
	line = " " + line + " "
	line = symbols13a.ReplaceAllString(line, " $1 ")
	line = before13a.ReplaceAllString(line, "$1 $2 ")
	line = after13a.ReplaceAllString(line, " $1 $2")
	line = dash13a.ReplaceAllString(line, "$1 $2 ")
	return strings.Fields(line)
}
