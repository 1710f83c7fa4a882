package env

// Academia queries two graphs, which the server reads from files. If an answer is a
// list, the server sorts the list before it compares the answer with the solution.

func init() {
	toolEnv{
		name:  "academia",
		doc:   "answer questions about papers and authors with tools (AgentGym academia server)",
		about: "You answer questions about scientific papers and their authors.",
		tools: []string{
			"loadPaperNet(): loads the graph PaperNet, whose nodes are papers and whose edges are citations",
			"loadAuthorNet(): loads the graph AuthorNet, whose nodes are authors and whose edges are joint papers",
			"neighbourCheck(graph, node): lists a node's neighbours; graph is PaperNet or AuthorNet",
			"paperNodeCheck(node): authors, year, venue, citations, keywords and kind of a paper, by its title",
			"authorNodeCheck(node): name and organisation of an author",
			"authorEdgeCheck(node1, node2): the papers that two authors wrote together",
			"paperEdgeCheck(node1, node2): the citation between two papers",
			"finish(answer): gives the answer, a text, a number or a list, and ends the task",
		},
		advice:  "Load a graph before you ask it anything.",
		example: `paperNodeCheck with Action Input: {"node": "Attention Is All You Need"}`,
		tasks:   20,
		turns:   12,
	}.register()
}
