package env

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/openmanus/openmanus/env/action"
)

// WebShop (protocol 5.7). /create answers a bare random number and loads the
// products, which takes a while; the task is called "session_id"; /reset
// answers an array, and the page is asked for afterwards; there is no /close.
// The step reply calls its text "state". A server that is busy answers 503
// before it acts, so that alone lets a step be sent again.

var webshopServer = server{stepRetry503: true, keys: stepKeys{observation: "state", reward: "reward", done: "done"}}

// webshopGoals is the number of shopping goals.
const webshopGoals = 6910

func init() {
	Register("webshop", Spec{
		Doc:           "find and buy a product that matches a wish (AgentGym webshop server)",
		New:           newWebshop,
		Instruction:   webshopInstruction,
		ActionFormats: action.CallFormats,
		SuccessReward: 0.99,
		MaxTurns:      10,
		IndexValid:    below(webshopGoals, "shopping goals"),
		MaxInstances:  8000,
		Greeting:      "ok",
	})
}

// below is an IndexValid for n tasks.
func below(n int, what string) func(int) error {
	return func(i int) error {
		if i >= n {
			return fmt.Errorf("the %s are 0 to %d", what, n-1)
		}
		return nil
	}
}

var webshopFunctions = action.Functions{
	{Name: "search", Params: []string{"keywords"}, Forms: []string{"", "search[{}]"}, Extra: true, Doc: "search for products, where the page has a search bar"},
	{Name: "click", Params: []string{"item"}, Forms: []string{"", "click[{}]"}, Extra: true, Doc: "click a button, a product or an option that the page shows"},
}

func webshopInstruction(format string) string {
	text := "You are shopping in a web shop and have to buy the product that a wish describes, at the price it allows. " +
		"Each observation is a page as text, its parts separated by [SEP]; the part after \"Instruction:\" is the wish. "
	if action.Format(format).Calls() {
		return text + "Search where there is a search bar, open a product, choose the options that were asked for, and click Buy Now, which ends the task. " +
			"A call that the page does not allow changes nothing.\n" + webshopFunctions.Shape(format, "red cotton shirt")
	}
	return text + "There are two actions: \"search[KEYWORDS]\" searches for products, where the page has a search bar, " +
		"and \"click[NAME]\" clicks something the page shows: a product's number, an option, or a button such as Next >, Back to Search, Description or Buy Now. " +
		"Open a product, choose the options that were asked for, then buy it, which ends the task. " +
		"An action that the page does not allow changes nothing.\n" + replyShape(format, "search[red cotton shirt]")
}

type webshop struct {
	indexed
	adapter action.Grammar
}

type webshopReset struct {
	SessionID int             `json:"session_id"`
	EnvIdx    json.RawMessage `json:"env_idx"`
}

func newWebshop(ctx context.Context, o Options) (Client, error) {
	a, err := newAdapter("webshop", o, webshopFunctions)
	if err != nil {
		return nil, err
	}
	c, err := newCaller(o, webshopServer)
	if err != nil {
		return nil, err
	}
	w := &webshop{indexed: indexed{instance: instance{caller: c}}, adapter: a}
	if err := w.createBare(ctx, nil); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *webshop) Reset(ctx context.Context, index int) (Obs, error) {
	if err := checkIndex("webshop", index); err != nil {
		return Obs{}, err
	}
	return w.restart(ctx, webshopReset{SessionID: index, EnvIdx: w.idx}, w.resetPair)
}

// Step sends the action. An invalid one is answered here, with the page as the
// server shows it now.
func (w *webshop) Step(ctx context.Context, text string) (StepResult, error) {
	act, ok := w.adapter.Parse(text)
	if ok {
		return w.actIndexed(ctx, act)
	}
	if err := w.enter(); err != nil {
		return StepResult{}, err
	}
	defer w.leave()
	page, err := w.observe(ctx)
	if err != nil {
		return StepResult{}, err
	}
	return StepResult{Observation: action.Invalid + page}, nil
}

// Close tells the server, although no server known has a /close: AgentGym's
// client does so too.
func (w *webshop) Close(ctx context.Context) error { return w.giveBack(ctx) }
