// Package remote records the requests of agents in other programs as episodes.
//
// An agent sends its requests to the HTTP API of agent/llm/serve, with the id of a session
// in a header. The requests of one session are the turns of one episode. The agent, or a program
// beside it, posts rewards and ends the episode. A Store is the source of a step's training episodes in
// place of rollout.RunEpisodes.
//
// Tokens are exact: a request whose messages continue a recorded conversation appends
// ids to its context, and the sampled ids are kept. Any other request begins another context of the
// episode. An episode is played by one version of the weights: a step admits as many
// sessions as it needs episodes, and further sessions wait for the next step.
//
// Concurrency: any goroutine may call the methods of a Store. New starts one goroutine;
// Close waits for it.
package remote
