package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
)

// setRunPath replaces the run path of an ELF file by path. The new entry is a DT_RPATH, which the dynamic linker
// searches before LD_LIBRARY_PATH, so that another libtorch in LD_LIBRARY_PATH is not loaded. path must not be longer than the
// run path of the file. A file without a run path is an error.
func setRunPath(file, path string) error {
	if err := replaceRunPath(file, path); err != nil {
		return fmt.Errorf("set the run path of %s: %w", file, err)
	}
	return nil
}

func replaceRunPath(file, path string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB {
		return fmt.Errorf("it is not a 64-bit little-endian file")
	}
	names, err := namesOf(f)
	if err != nil {
		return err
	}
	dynamic, text := f.SectionByType(elf.SHT_DYNAMIC), f.Section(".dynstr")
	if dynamic == nil || text == nil {
		return fmt.Errorf("it has no dynamic section")
	}
	var done bool
	for at := dynamic.Offset; at+16 <= dynamic.Offset+dynamic.Size; at += 16 {
		switch elf.DynTag(binary.LittleEndian.Uint64(b[at:])) {
		case elf.DT_RPATH, elf.DT_RUNPATH:
		default:
			continue
		}
		if done {
			return fmt.Errorf("it has two run paths")
		}
		binary.LittleEndian.PutUint64(b[at:], uint64(elf.DT_RPATH))
		start := text.Offset + binary.LittleEndian.Uint64(b[at+8:])
		old := b[start:][:bytes.IndexByte(b[start:], 0)]
		if len(path) > len(old) {
			return fmt.Errorf("its run path %q is shorter than %q", old, path)
		}
		clear(old[copy(old, path):])
		done = true
	}
	if !done {
		return fmt.Errorf("it has none")
	}
	// The linker may store a name as the end of a longer string; such a name must not be in the old run path.
	changed, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return err
	}
	now, err := namesOf(changed)
	if err != nil {
		return err
	}
	if !slices.Equal(names, now) {
		return fmt.Errorf("another entry shares its text")
	}
	return os.WriteFile(file, b, 0o644)
}

// namesOf returns the names of symbols, libraries and versions in the dynamic section.
func namesOf(f *elf.File) ([]string, error) {
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	soname, err := f.DynString(elf.DT_SONAME)
	if err != nil {
		return nil, err
	}
	names := append(libraries, soname...)
	for _, s := range symbols {
		names = append(names, s.Name, s.Library, s.Version)
	}
	return names, nil
}
