package env

// InvalidAction begins the observation for a function call that cannot be
// read (protocol 4.4). What the model saw last follows.
const InvalidAction = "Invalid Action.\n\n"

// adapter cuts the action out of a reply in the environments that have action
// formats.
type adapter struct {
	parser    Parser
	format    ActionFormat
	functions functions
}

// action gives the action to send. ok is false for an invalid one, of which
// the server hears nothing; text formats have none.
func (a adapter) action(text string) (action string, ok bool) {
	if a.parser == ParserG1 {
		return ParseSplit(text), true
	}
	switch a.format {
	case ActionFunctionCalling:
		return a.functions.parseCall(trimEOS(text))
	case ActionCodeAsAction:
		return a.functions.parseCode(trimEOS(text))
	}
	return ParseReact(text), true
}

// newAdapter reads the options of the environment called name.
func newAdapter(name string, o Options, fs functions) (adapter, error) {
	s, err := Lookup(name)
	if err != nil {
		return adapter{}, err
	}
	p, a, err := o.grammar(s)
	return adapter{parser: p, format: a, functions: fs}, err
}

// bothCalls are the formats of an environment that has function calls.
var bothCalls = []ActionFormat{ActionFunctionCalling, ActionCodeAsAction}
