package safetensors

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeTestFile(t *testing.T, path string, names ...string) {
	t.Helper()
	var specs []Spec
	for _, n := range names {
		specs = append(specs, Spec{n, Info{U8, []int{1}}})
	}
	err := WriteFile(path, specs, func(i int, w io.Writer) error {
		_, err := w.Write([]byte{byte(i)})
		return err
	}, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOpenFolderIndex(t *testing.T) {
	for name, tc := range map[string]struct {
		index string
		want  string // part of the error, "" for success
	}{
		"two shards":           {`{"metadata":{"total_size":2},"weight_map":{"a":"s1.safetensors","b":"s2.safetensors"}}`, ""},
		"subfolder":            {`{"weight_map":{"c":"sub/s3.safetensors"}}`, ""},
		"not JSON":             {`{`, "unexpected end"},
		"no map":               {`{}`, "weight_map"},
		"empty map":            {`{"weight_map":{}}`, "empty"},
		"map of numbers":       {`{"weight_map":{"a":1}}`, "expected a string"},
		"duplicate":            {`{"weight_map":{"a":"s1.safetensors","a":"s2.safetensors"}}`, "duplicate"},
		"parent":               {`{"weight_map":{"a":"../s1.safetensors"}}`, "outside of the folder"},
		"absolute":             {`{"weight_map":{"a":"/etc/passwd"}}`, "outside of the folder"},
		"hidden parent":        {`{"weight_map":{"a":"sub/../../s1.safetensors"}}`, "outside of the folder"},
		"empty path":           {`{"weight_map":{"a":""}}`, "outside of the folder"},
		"missing shard":        {`{"weight_map":{"a":"s9.safetensors"}}`, "s9.safetensors"},
		"tensor not in shard":  {`{"weight_map":{"b":"s1.safetensors"}}`, "does not contain it"},
		"the folder itself":    {`{"weight_map":{"a":"."}}`, "not a regular file"},
		"index is not UTF-8":   {"{\"weight_map\":{\"\xff\":\"s1.safetensors\"}}", "UTF-8"},
		"shard is not a model": {`{"weight_map":{"a":"bad.safetensors"}}`, "not enough"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "model")
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			writeTestFile(t, filepath.Join(parent, "s1.safetensors"), "a") // this file is outside of the folder and must not be opened
			writeTestFile(t, filepath.Join(dir, "s1.safetensors"), "a")
			writeTestFile(t, filepath.Join(dir, "s2.safetensors"), "b")
			writeTestFile(t, filepath.Join(dir, "sub", "s3.safetensors"), "c")
			for file, text := range map[string]string{"bad.safetensors": "x", IndexFile: tc.index} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, err := OpenFolder(dir)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("OpenFolder = %v, want %q", err, tc.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, n := range f.Names() {
				if _, _, err := f.Tensor(n); err != nil {
					t.Error(err)
				}
			}
			if _, _, err := f.Tensor("zzz"); err == nil {
				t.Error("Tensor returned no error for an absent tensor")
			}
		})
	}
}

func TestOpenFolderPrefersSingleFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenFolder(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenFolder of an empty folder = %v", err)
	}
	writeTestFile(t, filepath.Join(dir, SingleFile), "a", "b")
	if err := os.WriteFile(filepath.Join(dir, IndexFile), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := strings.Join(f.Names(), " "); got != "a b" {
		t.Errorf("Names = %q", got)
	}
	err = WriteFolder(dir, nil, nil, WriteOptions{})
	if err == nil || !strings.Contains(err.Error(), "already has") {
		t.Errorf("WriteFolder over weights = %v", err)
	}
}
