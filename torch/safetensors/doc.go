// Package safetensors reads and writes tensors in the safetensors format:
// single files, and folders of shards joined by model.safetensors.index.json.
//
// Files are mapped read-only, every number of a header is checked against the
// file, and a file appears under its name complete or not at all. The package
// depends on no tensor library: tensors are bytes with a dtype and a shape.
//
// Files and folders opened for reading may be used by many goroutines at once;
// Close must come after the last use.
package safetensors
