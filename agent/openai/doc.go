// Package openai talks to endpoints of the chat-completions form that OpenAI
// defined and vLLM, SGLang, llama.cpp, ollama and hosted services serve
// (https://platform.openai.com/docs/api-reference/chat).
//
// It owns Client, one endpoint with its limits (how many requests at once, how
// long, how often again), and Speaker, which lets it play episodes behind
// agent/text. It does not own where the key comes from: its caller reads an
// environment variable, and the key is never written anywhere.
//
// Concurrency: a Client and a Speaker may be used by many goroutines. No
// goroutine outlives a call; Close drops idle connections.
package openai
