// Package hub fetches models from the Hugging Face hub, or from a mirror with the same HTTP API, and finds them
// in the cache that the hub's Python client (huggingface_hub) also uses.
//
// The wire format is the one of huggingface_hub: GET /api/models/ID/revision/REVISION lists the files of a commit with
// their sizes and hashes, and GET /ID/resolve/COMMIT/FILE redirects to the file's content. Files in git have the
// SHA-1 of their git blob, large files the SHA-256 of their content; the same hash names the file in the cache:
//
//	models--ORG--NAME/refs/REVISION                text: the commit of a branch or tag
//	models--ORG--NAME/snapshots/COMMIT/FILE        relative link to ../../blobs/HASH
//	models--ORG--NAME/blobs/HASH                   content
//	.locks/models--ORG--NAME/HASH.lock             lock (flock) of the process that downloads the content
//
// The package downloads what agent/llm/model reads: weights as safetensors or GGUF, never pickles. It does not open
// models. A Client is safe for concurrent use.
package hub
