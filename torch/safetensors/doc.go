// Package safetensors reads and writes tensors in the safetensors format:
// single files, and folders of shards joined by model.safetensors.index.json.
//
// It owns the format and the safety of the file system work: files are mapped
// read-only, a header is believed only after every number in it was checked
// against the file, and a file appears under its name complete or not at all.
// It knows no tensor library: tensors are bytes with a dtype and a shape.
//
// Files and folders opened for reading may be used by many goroutines at once;
// Close must come after the last use. A Writer belongs to one goroutine.
package safetensors
