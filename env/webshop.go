package env

import "github.com/openmanus/openmanus/env/action"

// WebShop (protocol 5.7). /create returns a random number and loads the products,
// which takes a while. The key of the task in a reset is "session_id". /reset returns an
// array, and the page is requested afterwards. A step's reply has its text in "state". A
// busy server answers 503 before it acts, so a step may be repeated after that
// status. No known server has /close, but AgentGym's client calls it.

// webshopGoals is the number of shopping goals.
const webshopGoals = 6910

func init() {
	register("webshop", server{
		reset:        `{"session_id":%d,"env_idx":%s}`,
		indexed:      true,
		checkReset:   (*instance).isPair,
		parse:        action.Grammar.Parse,
		functions:    webshopFunctions,
		textKey:      "state",
		stepRetry503: true,
		closes:       true,
	}, Spec{
		Doc:           "find and buy a product that matches a wish (AgentGym webshop server)",
		Instruction:   webshopInstruction,
		ActionFormats: action.CallFormats,
		SuccessReward: 0.99,
		MaxTurns:      10,
		IndexValid:    below(webshopGoals, "shopping goals"),
		MaxInstances:  8000,
		Greeting:      "ok",
	})
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
